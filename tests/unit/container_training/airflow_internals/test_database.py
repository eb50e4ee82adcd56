"""Airflow's database is read in short visits, and has what is looked for in it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.variable import Variable
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from sqlalchemy import event, select

from container_training.airflow_internals import database
from container_training.airflow_internals.database import airflow_database
from container_training.dashboard.app import make_app
from container_training.work.orphans.orphans import TaskView
from training_api.job.job_id import TaskKey

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

HERE = Path(__file__).parent
ROOM = Path(database.__file__).parent


def test_no_request_keeps_a_connection_of_airflows_database() -> None:
    """
    See ``database.py``: fifty pages at once must not make Airflow's API server hang.

    It hangs with FastAPI's own dependency.
    """
    kept = {"_get_session", "_get_async_session"}

    def calls(dependant: Dependant) -> set[str]:
        own = {getattr(dependant.call, "__name__", "")}
        return own.union(*(calls(each) for each in dependant.dependencies))

    for route in make_app().routes:
        assert isinstance(route, APIRoute)
        assert not calls(route.dependant) & kept, route.path


def test_what_a_block_wrote_is_not_there_if_it_broke_off(airflow_db: Path) -> None:
    query = select(Variable).where(Variable.key == "broken_off")

    def write_and_break_off() -> None:
        with airflow_database() as session:
            session.add(Variable(key="broken_off", val="1"))
            session.flush()
            assert session.scalar(query) is not None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_break_off()

    with airflow_database() as session:
        assert session.scalar(query) is None


@pytest.mark.parametrize("module", ["database", "login", "tasks"])
def test_each_function_of_the_room_has_a_test_that_uses_it(module: str) -> None:
    """So that a new version of Airflow shows what it has changed; see ``make test-airflows``."""
    defined = {
        node.name
        for node in ast.parse((ROOM / f"{module}.py").read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    used = {
        getattr(node, "attr", None) or getattr(node, "id", None)
        for path in (HERE / f"test_{module}.py", HERE / "conftest.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    }

    assert defined
    assert defined - used == set()


def key_of(ran: Any, task_id: str = "remembers", map_index: int = -1) -> TaskKey:
    return TaskKey(dag_id="internal_things", run_id=ran.run_id, task_id=task_id, map_index=map_index)


UNKNOWN = TaskKey(dag_id="internal_things", run_id="another", task_id="remembers")


def test_dag_ids_are_those_of_the_table_of_dags(add_run: Callable[..., None], session: Session) -> None:
    add_run("one.dag", "r", "t")

    assert "one.dag" in database.dag_ids(session)


def test_connection_ids_are_those_of_one_type(session: Session) -> None:
    from airflow.models.connection import Connection

    session.add_all([Connection(conn_id="a", conn_type="x"), Connection(conn_id="b", conn_type="y")])
    session.flush()

    assert database.connection_ids("x", session) == {"a"}


def test_run_type_and_user_are_columns_of_a_run(add_run: Callable[..., None], session: Session) -> None:
    add_run("d", "r", "t")

    assert database.run_type_and_user("d", "r", session) == ("manual", "")
    assert database.run_type_and_user("d", "other", session) is None


def test_the_state_of_a_run_is_what_is_stored(add_run: Callable[..., None], session: Session) -> None:
    from airflow.models.dagrun import DagRun

    add_run("d", "r", "t")
    run = session.scalars(select(DagRun).where(DagRun.dag_id == "d", DagRun.run_id == "r")).one()
    run.state = "failed"
    session.flush()

    assert database.run_state("d", "r", session) == "failed"
    assert database.run_state("d", "other", session) is None


def test_runs_with_labels_are_found_by_what_a_label_has_left_of_them(
    add_run: Callable[..., None], session: Session
) -> None:
    for run_id in ("Manual:1", "manual-2"):
        add_run("d", run_id, "t")

    assert database.runs_with_labels([("d", "manual-1")], session) == [("d", "Manual:1")]
    assert database.runs_with_labels([("other", "manual-1")], session) == []
    assert database.runs_with_labels([], session) == []


def test_tasks_of_runs_and_live_tasks_have_the_columns_of_a_key(
    add_run: Callable[..., None], session: Session
) -> None:
    add_run("d", "r", "a", "b")
    keys = {TaskKey(dag_id="d", run_id="r", task_id=task_id) for task_id in "ab"}

    assert {*database.tasks_of_runs([("d", "r")], session)} == keys
    assert database.tasks_of_runs([("d", "r")], session, state="skipped") == []
    assert database.tasks_of_runs([], session) == []
    views = [view for view in database.live_tasks(["running"], session) if view.dag_id == "d"]
    assert {TaskKey.of(view) for view in views} == keys
    assert {view.state for view in views} == {None}


@pytest.mark.extended
def test_tasks_with_run_label_say_what_a_task_of_airflow_waits_for(ran: Any, session: Session) -> None:
    """``rendered_fields["job_id"]`` of the task, read as JSON within the database."""
    label = ran.run_id.lower().replace("_", "-")

    found = {(view.task_id, view.map_index): view for view in database.tasks_with_run_label(label, session)}

    key = key_of(ran)
    assert found["remembers", -1] == TaskView(
        dag_id=key.dag_id,
        run_id=key.run_id,
        task_id=key.task_id,
        state="success",
        waits_for="job-of-internal_things",
    )
    assert {"asks", "last"} <= {task_id for task_id, _ in found}
    assert found["asks", 1].waits_for is None


def test_task_states_are_those_of_a_task_or_of_its_run(ran: Any, session: Session) -> None:
    assert database.task_states(key_of(ran), session) == ["success"]
    assert database.task_states(key_of(ran, "asks", 1), session) == ["success"]
    assert database.task_states(key_of(ran), session, whole_run=True) == ["success"] * 4
    assert database.task_states(UNKNOWN, session) == []


def test_downstream_tasks_are_those_of_the_serialized_dag(ran: Any, session: Session) -> None:
    assert database.downstream_tasks("internal_things", session) == {
        "remembers": frozenset({"asks"}),
        "asks": frozenset({"last"}),
        "last": frozenset(),
    }
    assert database.downstream_tasks("no such DAG", session) == {}


def test_rendered_fields_are_what_the_task_has_begun_with(ran: Any, session: Session) -> None:
    assert database.rendered_fields(key_of(ran), session) == {"job_id": "job-of-internal_things"}
    assert database.rendered_fields(UNKNOWN, session) == {}


def test_find_xcom_and_read_xcom_have_what_the_task_has_pushed(ran: Any, session: Session) -> None:
    """``XComModel``: a value, or the text of its JSON. ``XCom.deserialize_value``."""
    found = database.find_xcom(key_of(ran), "job", session)

    assert found is not None
    assert found.value in ({"jobId": "digits_1"}, '{"jobId": "digits_1"}')
    assert database.read_xcom(found) == {"jobId": "digits_1"}
    returned = database.find_xcom(key_of(ran), "return_value", session)
    assert returned is not None
    assert "job-of-internal_things" in returned.value
    assert database.find_xcom(UNKNOWN, "job", session) is None


def test_has_xcom_asks_without_the_value(ran: Any, session: Session) -> None:
    statements: list[str] = []

    @event.listens_for(session.get_bind(), "before_cursor_execute")
    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    assert database.has_xcom(key_of(ran), "job", session)
    assert not database.has_xcom(key_of(ran), "another", session)
    assert not database.has_xcom(UNKNOWN, "job", session)
    event.remove(session.get_bind(), "before_cursor_execute", note)
    assert len(statements) == 3
    assert not [statement for statement in statements if "value" in statement]


def test_stored_state_is_what_the_task_keeps(ran: Any) -> None:
    """``get_state_backend`` with a ``TaskScope``."""
    assert database.stored_state(key_of(ran), "kept") == {"owner": "token"}
    assert database.stored_state(UNKNOWN, "kept") is None
