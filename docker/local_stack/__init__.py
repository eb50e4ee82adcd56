"""
The local stack: all programs on one machine.

Engine, registry, object store, training service and Airflow.
"""
