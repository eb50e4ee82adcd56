"""Hyperparameter search: which trial comes next. Everything in here is pure: no clock, no store, no engine."""
