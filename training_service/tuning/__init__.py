"""Hyperparameter tuning: which trial comes next, and which is stopped. Everything in here is pure: no clock, no store, no engine."""
