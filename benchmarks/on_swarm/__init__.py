"""Benchmarks of the service over a swarm of three machines, which are namespaces."""
