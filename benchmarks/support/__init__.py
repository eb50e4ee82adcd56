"""What several benchmarks use: the service in memory, jobs, and measuring."""
