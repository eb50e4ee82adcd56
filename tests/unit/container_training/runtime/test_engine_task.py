"""Tasks that work on a Docker Engine: connected to late, and ended from outside."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from container_training.runtime import supervision
from container_training.runtime.engine_task import EngineOperator
from tests.support.waiting import wait_until


class BuildLikeTask(EngineOperator):
    """Notes how its call was ended."""

    def run_until(self, stop: list[str]) -> None:
        cancellation = self._new_cancellation()
        with cancellation.stops_with(lambda: stop.append("stopped")):
            self.on_kill()
        self.was_cancelled = cancellation.is_cancelled


def test_a_task_names_its_engine_and_connects_to_none_before_it_runs() -> None:
    task = BuildLikeTask(task_id="t", docker_conn_id=None, docker_url="unix:///absent.sock")

    assert task.hook is task.hook
    assert (task.hook.docker_conn_id, task.hook.engine.url) == (None, "unix:///absent.sock")
    assert "api_client" not in vars(task.hook)


def test_a_kill_before_anything_runs_does_nothing() -> None:
    BuildLikeTask(task_id="t").on_kill()


def test_a_kill_stops_the_call_under_way() -> None:
    task, stop = BuildLikeTask(task_id="t"), list[str]()

    task.run_until(stop)

    assert (stop, task.was_cancelled) == (["stopped"], True)


def test_a_call_ends_when_the_worker_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "has_supervisor", lambda: True)
    monkeypatch.setattr(supervision, "_LOOK_SECONDS", 0.01)
    cancellation = BuildLikeTask(task_id="t")._new_cancellation()
    assert not cancellation.is_cancelled

    monkeypatch.setattr(supervision.os, "getppid", lambda: 0)

    wait_until(lambda: cancellation.is_cancelled, "the call is cancelled")


def test_a_line_of_the_engine_is_logged_as_it_is(log_lines: Sequence[str]) -> None:
    BuildLikeTask(task_id="t")._log_line("Step 1/2 : RUN echo 100%s")

    assert list(log_lines) == ["Step 1/2 : RUN echo 100%s"]
