"""What the tasks that work on a Docker Engine have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from container_training.hooks.image import ImageHook
from container_training.runtime.supervision import WorkerWatch
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from training_api.cached import cached_property

if TYPE_CHECKING:
    from container_training.work.images.engine import Cancellation


class EngineOperator(TypedTask):
    """
    A task that works on a Docker Engine.

    :param docker_conn_id: connection with the registry's host and login; it may be missing (see
        :class:`ImageHook`). (templated)
    :param docker_url: URL of the engine; default: the connection's ``engine_url``, else ``DOCKER_HOST``, else
        the local socket. (templated)
    """

    ui_color = "#e2f0fb"

    def __init__(
        self,
        *,
        docker_conn_id: str | None = ImageHook.default_conn_name,
        docker_url: str | None = None,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.docker_conn_id = docker_conn_id
        self.docker_url = docker_url
        self._cancellation: Cancellation | None = None

    @cached_property
    def hook(self) -> ImageHook:
        """The engine; connected to on first use."""
        return ImageHook(self.docker_conn_id, docker_url=self.docker_url)

    def on_kill(self) -> None:
        """Stop what runs on the engine for this task."""
        if self._cancellation is not None:
            self._cancellation.cancel()

    def _new_cancellation(self) -> Cancellation:
        from container_training.work.images.engine import Cancellation

        self._cancellation = cancellation = Cancellation()
        # Else a build goes on for hours beside that of the next try.
        WorkerWatch().call_when_alone(cancellation.cancel)
        return cancellation

    def _log_line(self, line: str) -> None:
        self.log.info("%s", line)
