"""Train models in custom containers from Apache Airflow."""

from training_api.version import __version__ as __version__
