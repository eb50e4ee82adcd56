"""Benchmarks of the search for hyperparameters: against Optuna, and of early stopping."""
