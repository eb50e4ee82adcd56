"""Benchmarks of the service alone, over an engine in memory."""
