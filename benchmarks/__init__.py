"""Benchmarks: each question side by side with what it is compared to, in one run."""
