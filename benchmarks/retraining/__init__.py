"""Whether retraining promotes what it should, by simulation."""
