"""The local stack: engine, registry, object store, training service and Airflow on one machine."""
