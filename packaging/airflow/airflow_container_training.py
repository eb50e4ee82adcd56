"""
The distribution's name as a module, which stands for ``container_training``.

Airflow 3.3 looks for a provider's example DAGs below the module that is named like the distribution
(``airflow.dag_processing.bundles.manager``), and logs an error if there is none.
"""

from container_training import __path__ as __path__
