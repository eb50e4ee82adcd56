"""Train models in custom containers from Apache Airflow."""

__version__ = "0.1.0"
