"""``@task.training_job``: a Python function that trains, as a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.training import TrainingHook
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_group import own_folder

if TYPE_CHECKING:
    from airflow.sdk import Context


class _TrainingJobDecoratedOperator(DecoratedOperator, SubmitTrainingJobOperator):
    """A ``SubmitTrainingJobOperator(wait_for_completion=True)`` whose program is a function."""

    custom_operator_name = "@task.training_job"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *SubmitTrainingJobOperator.template_fields,
    )
    template_fields_renderers = {
        **DecoratedOperator.template_fields_renderers,
        **SubmitTrainingJobOperator.template_fields_renderers,
    }

    def __init__(self, *, training_conn_id: str = TrainingHook.default_conn_name, **kwargs: Any) -> None:
        kwargs.setdefault("default_job_dir", own_folder(training_conn_id))
        super().__init__(training_conn_id=training_conn_id, wait_for_completion=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Submit a job that calls the function, wait for it, and return its result."""
        from container_training.work.packages.function_trainer import function_arguments, function_command

        with final_unless_transient():
            self.command = function_command(self.get_python_source())  # type: ignore[no-untyped-call]
            self.args = function_arguments(self.python_callable.__name__, self.op_args, self.op_kwargs)
        return super().execute(context)


def training_job_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """
    Make a task of a function: it runs as a training job, whose result the task returns.

    The function's text travels in the job's request and runs in ``image``, which needs Python 3.8 or later as
    ``python3``. It sees nothing else of its file: what it imports, it imports within. Its arguments and the
    dict that it returns, its metrics, travel as JSON. A parameter ``job_dir`` (give it a default) gets the
    ``gs://`` folder for a model.

    :param image: image by digest, or a pullable name.
    :param kwargs: further arguments of ``SubmitTrainingJobOperator``; the folder is
        ``<job_bucket of the connection>/<job id>`` unless ``job_dir`` gives another.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_TrainingJobDecoratedOperator,
        **kwargs,
    )
