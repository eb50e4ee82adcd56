"""
The calls of Google's training operators in a DAG file, and the DAGs that they are in.

The file is parsed, never run. Without I/O.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from container_training.work.migration.python_values import PythonFile, dotted
from training_api.errors import InvalidCommand

CONTAINER = "CreateCustomContainerTrainingJobOperator"
PACKAGE = "CreateCustomPythonPackageTrainingJobOperator"
SCRIPT = "CreateCustomTrainingJobOperator"
CUSTOM_JOB = "CreateCustomJobOperator"
ML_ENGINE = "MLEngineStartTrainingJobOperator"
#: Its name before version 2 of the provider.
_OLD_NAMES = {"MLEngineTrainingOperator": ML_ENGINE}
#: What is read of ``default_args`` with the DAG, not with each task.
_OF_DAGS = frozenset({"start_date", "end_date", "params"})
#: Functions and methods that set the order of tasks.
_ORDERS = frozenset({"chain", "chain_linear", "cross_downstream", "set_upstream", "set_downstream"})
_OPERATORS = frozenset({CONTAINER, PACKAGE, SCRIPT, CUSTOM_JOB, ML_ENGINE})


@dataclass(frozen=True, slots=True, kw_only=True)
class DagCall:
    """
    A DAG of the file.

    :param arguments: as they are written; ``dag_id`` among them.
    :param line: where it is made; 0: the file has none.
    :param start_date: of its ``default_args``.
    """

    arguments: Mapping[str, ast.expr] = field(default_factory=dict)
    line: int = 0
    start_date: ast.expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """
    A call of an operator.

    :param operator: its name in the newest version of the provider.
    :param arguments: as they are written, with those of ``default_args`` that the operator takes.
    :param target: the variable that it is assigned to; empty: none.
    :param unread: what cannot be read of its arguments: ``**kwargs``, ``expand``.
    """

    operator: str
    line: int
    dag: DagCall
    arguments: Mapping[str, ast.expr]
    target: str
    unread: Sequence[str]
    is_repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DagFile:
    """
    What was found.

    :param calls: to migrate.
    :param others: operators that are not: name and line.
    :param orders: lines that set the order of tasks.
    """

    file: PythonFile
    calls: Sequence[OperatorCall]
    others: Sequence[tuple[str, int]]
    orders: Sequence[int]


def read_dag_file(source: str, name: str) -> DagFile:
    """
    Return the calls in a DAG file. Pure.

    :param name: of the file, for messages.
    :raises InvalidCommand: it is no Python, or calls none of the operators.
    """
    try:
        file = PythonFile(source)
    except SyntaxError as error:
        raise InvalidCommand(f"{name}:{error.lineno}: is not Python: {error.msg}") from error
    calls, others = [], []
    names = imported_names(file.tree)
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Call):
            continue
        operator = operator_name(node, names)
        if operator in _OPERATORS:
            calls.append(_read_call(node, operator, file, names))
        elif operator.endswith(("Operator", "Sensor")):
            others.append((operator, node.lineno))
    if not calls:
        raise InvalidCommand(
            f"{name} calls no training operator of Google's provider; migrate reads {', '.join(sorted(_OPERATORS))}, "
            "and with --to vertex the operators of this project"
        )
    return DagFile(
        file=file,
        calls=sorted(calls, key=lambda call: call.line),
        others=sorted(others, key=lambda other: other[1]),
        orders=sorted(
            node.lineno
            for node in ast.walk(file.tree)
            if isinstance(node, ast.Expr) and _sets_order(node.value)
        ),
    )


def _sets_order(said: ast.expr) -> bool:
    """Whether a statement says which task comes before which."""
    if isinstance(said, ast.BinOp):
        return isinstance(said.op, ast.RShift | ast.LShift)
    return isinstance(said, ast.Call) and dotted(said.func).rpartition(".")[2] in _ORDERS


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what the file's names stand for: the last part of what they were imported as."""
    return {
        alias.asname: alias.name.rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }


def operator_name(call: ast.Call, names: Mapping[str, str]) -> str:
    """Return the imported name of what is called, also by ``.partial``; empty: none."""
    called = dotted(call.func).removesuffix(".partial").rpartition(".")[2]
    name = names.get(called, called)
    return _OLD_NAMES.get(name, name)


def _read_call(node: ast.Call, operator: str, file: PythonFile, names: Mapping[str, str]) -> OperatorCall:
    arguments, unread = arguments_of(node, file)
    dag = _dag_of(node, arguments.pop("dag", None), file, names)
    target = ""
    for parent in file.parents(node):
        if (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Attribute)
            and parent.func.attr == "expand"
        ):
            unread.append(f"expand({', '.join(map(ast.unparse, parent.keywords))})")
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            target = parent.targets[0].id
            break
        if isinstance(parent, ast.stmt):
            break
    return OperatorCall(
        operator=operator,
        line=node.lineno,
        dag=dag,
        arguments={
            **{
                name: value
                for name, value in _items(dag.arguments.get("default_args"), file).items()
                if name not in _OF_DAGS
            },
            **arguments,
        },
        target=target,
        unread=unread,
        is_repeated=file.is_repeated(node),
    )


def arguments_of(call: ast.Call, file: PythonFile) -> tuple[dict[str, ast.expr], list[str]]:
    """Return the named arguments of a call, and what cannot be read of the others. Pure."""
    found: dict[str, ast.expr] = {}
    unread = [ast.unparse(each) for each in call.args]
    for keyword in call.keywords:
        if keyword.arg is not None:
            found[keyword.arg] = keyword.value
        elif items := _items(keyword.value, file):
            found |= items
        else:
            unread.append(f"**{ast.unparse(keyword.value)}")
    return found, unread


def _items(node: ast.expr | None, file: PythonFile) -> dict[str, ast.expr]:
    """Return the items of a dictionary, or of a name that is assigned one; empty: unknown."""
    if isinstance(node, ast.Name):
        node = file.assigned(node)
    if isinstance(node, ast.Call) and dotted(node.func) == "dict" and not node.args:
        return {each.arg: each.value for each in node.keywords if each.arg}
    if not isinstance(node, ast.Dict):
        return {}
    found: dict[str, ast.expr] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found |= _items(value, file)
        elif isinstance(key, ast.Constant):
            found[str(key.value)] = value
    return found


def _dag_of(node: ast.AST, given: ast.expr | None, file: PythonFile, names: Mapping[str, str]) -> DagCall:
    """Return the DAG that an operator is in: the one that it names, or the one around it."""
    for made in _dags_around(node, given, file, names):
        arguments, _ = arguments_of(made, file)
        if made.args and "dag_id" not in arguments:
            arguments["dag_id"] = made.args[0]
        return _dag(arguments, made.lineno, file)
    for parent in file.parents(node):
        if isinstance(parent, ast.FunctionDef):
            for decorator in parent.decorator_list:
                if _called(decorator, names) == "dag":
                    arguments = arguments_of(decorator, file)[0] if isinstance(decorator, ast.Call) else {}
                    name = ast.Constant(parent.name)
                    return _dag({"dag_id": name, **arguments}, parent.lineno, file)
    return DagCall()


def _dag(arguments: Mapping[str, ast.expr], line: int, file: PythonFile) -> DagCall:
    start = _items(arguments.get("default_args"), file).get("start_date")
    return DagCall(arguments=arguments, line=line, start_date=start)


def _dags_around(
    node: ast.AST, given: ast.expr | None, file: PythonFile, names: Mapping[str, str]
) -> Iterator[ast.Call]:
    candidates = [given] if given is not None else []
    for parent in file.parents(node):
        if isinstance(parent, ast.With):
            candidates += [item.context_expr for item in parent.items]
    for found in candidates:
        made = file.assigned(found) if isinstance(found, ast.Name) else found
        if isinstance(made, ast.Call) and _called(made, names) == "DAG":
            yield made
    if given is not None and isinstance(given, ast.Name):  # ``with DAG(...) as dag``, named again outside
        for other in ast.walk(file.tree):
            if isinstance(other, ast.withitem) and dotted(other.optional_vars or given) == given.id:
                made = other.context_expr
                if isinstance(made, ast.Call) and _called(made, names) == "DAG":
                    yield made


def _called(node: ast.expr, names: Mapping[str, str]) -> str:
    called = dotted(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]
    return names.get(called, called)
