"""Benchmarks of the whole stack on this machine."""
