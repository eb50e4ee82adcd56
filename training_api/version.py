"""The version of all distributions (docs/adr/0023); the only place that says it."""

__version__ = "0.2.0"
