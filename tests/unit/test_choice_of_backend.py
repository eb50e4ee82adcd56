"""
Which API a connection leads to is decided in one place.

That is ``container_training/hooks/backends.py``. Everybody else asks a backend for its capabilities.
See docs/adr/0035-one-description-of-a-job.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.test_layers import MODULES as ALL_MODULES
from tests.unit.test_layers import imports_of

DECIDES = "container_training.hooks.backends"
#: Who may import the client of Vertex AI.
MAKES_VERTEX_CLIENTS = "container_training.hooks.vertex_address"
VERTEX_JOBS = "training_api.vertex_jobs"
#: Who knows what of Vertex AI's jobs: where they are, what a preflight and a migrated DAG would ask for.
KNOW_VERTEX_JOBS = {
    (MAKES_VERTEX_CLIENTS, "address"),
    (MAKES_VERTEX_CLIENTS, "options"),
    ("container_training.work.job_pages", "address"),
    ("container_training.work.migration.vertex_decisions", "options"),
    ("container_training.work.migration.vertex_decisions", "writer"),
}
#: What names a backend: names and attributes, and texts.
NAMES = frozenset(
    {"conn_type", "connection_type", "CONN_TYPE", "TRAINING_CONN_TYPE", "VERTEX_CONN_TYPE", "dialect"}
)
TEXTS = frozenset({"container_training", "vertex_training", "ml_v1", "vertex_v1"})
#: Classes that only one backend has.
CLASSES = frozenset(
    {
        *("VertexClient", "AsyncVertexClient", "VertexService", "VertexAddress"),
        *("TrainingClient", "AsyncTrainingClient", "ServiceAddress", "VertexTrainingHook"),
    }
)
#: Choices that are none between backends, and why.
ALLOWED = {
    ("container_training.airflow_internals.database", "Connection.conn_type == conn_type"): (
        "the query of Airflow's database for connections of any type"
    ),
    ("container_training.operators.registry_iam", "dialect.name == training.client.capabilities.dialect"): (
        "whether the account that is granted a role is the connection's own, whichever API that has"
    ),
}


MODULES = {name: path for name, path in ALL_MODULES.items() if name.startswith("container_training")}


def names_a_backend(node: ast.AST) -> bool:
    """Whether an expression is, or contains, the name of a backend."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr in NAMES)
        or (isinstance(part, ast.Name) and part.id in NAMES)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in TEXTS)
        for part in ast.walk(node)
    )


def choices_of(tree: ast.AST) -> Iterator[str]:
    """Yield each expression that chooses by a backend's name or class."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                is_choice = names_a_backend(node)
            case ast.Match(subject=subject):
                is_choice = names_a_backend(subject) or any(map(names_a_backend, _patterns_of(node)))
                node = subject
            case ast.Subscript(slice=key, ctx=ast.Load()):
                is_choice = any(
                    isinstance(part, ast.Attribute) and part.attr in NAMES for part in ast.walk(key)
                )
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                is_choice = any(
                    isinstance(part, ast.Attribute) and part.attr in NAMES for part in ast.walk(key)
                )
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                is_choice = any(isinstance(part, ast.Name) and part.id in CLASSES for part in ast.walk(kinds))
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith")):
                is_choice = names_a_backend(node)
            case _:
                continue
        if is_choice:
            yield ast.unparse(node)


def _patterns_of(node: ast.Match) -> Iterator[ast.AST]:
    return (part for case in node.cases for part in ast.walk(case.pattern))


def test_nobody_else_imports_the_client_of_vertex_ai() -> None:
    clients = ("training_api.clients.vertex.", f"{MAKES_VERTEX_CLIENTS}.")
    users = {
        name for name in MODULES if any(f"{used}.".startswith(clients) for used in imports_of(MODULES[name]))
    }

    assert DECIDES in users  # a rule that finds nothing anywhere would be none
    assert users <= {DECIDES, MAKES_VERTEX_CLIENTS}


def test_nobody_else_reads_the_words_of_vertex_ais_jobs() -> None:
    """What an end, an option or a resource of Vertex AI means is the backend's to say."""
    users = {
        (name, used.removeprefix(f"{VERTEX_JOBS}."))
        for name in MODULES
        for used in imports_of(MODULES[name])
        if used.startswith(f"{VERTEX_JOBS}.")
    }

    assert users == KNOW_VERTEX_JOBS


def test_nobody_else_chooses_by_a_backends_name_or_class() -> None:
    found = {
        (name, choice)
        for name, path in MODULES.items()
        if name != DECIDES
        for choice in choices_of(ast.parse(path.read_text("utf-8")))
    }

    assert found - ALLOWED.keys() == set(), "ask the backend for its capabilities"
    assert ALLOWED.keys() - found == set(), "they are there no more"


def test_the_rule_sees_the_one_place() -> None:
    """A rule that finds nothing anywhere would be none."""
    tree = ast.parse(MODULES[DECIDES].read_text("utf-8"))

    assert list(choices_of(tree)) == [
        "connection.conn_type in _READERS",
        "_READERS.get(connection.conn_type or TRAINING_CONN_TYPE)",
    ]
    assert MAKES_VERTEX_CLIENTS in imports_of(MODULES[DECIDES])
    assert "training_api.clients.vertex.client" in imports_of(MODULES[MAKES_VERTEX_CLIENTS])


@pytest.mark.parametrize(
    "text",
    [
        "if connection.conn_type == 'x': pass",
        "if kind == 'vertex_training': pass",
        "if 'vertex_v1' in (client.capabilities.dialect,): pass",
        "match connection.conn_type:\n    case 'x': pass",
        "match kind:\n    case 'vertex_training': pass",
        "y = TABLE[hook.connection.conn_type]",
        "y = TABLE.get(client.capabilities.dialect)",
        "if isinstance(client, (int, VertexClient)): pass",
        "if client.capabilities.dialect.startswith('v'): pass",
    ],
)
def test_the_rule_sees_each_way_to_choose(text: str) -> None:
    assert len(list(choices_of(ast.parse(text)))) == 1
