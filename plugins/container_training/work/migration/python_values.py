"""
Values of a Python file that can be known without running it. Without I/O.

What only a run could tell - an environment variable, the output of another task - stays in the values as a
mark that stands for it, as a part of a shell's command does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from container_training.work.migration.python_text import Code
from container_training.work.migration.shell_text import ShellPart, ShellText, mark

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: Statements whose body runs exactly once, in its place.
_STRAIGHT = (ast.Module, ast.With, ast.FunctionDef, ast.AsyncFunctionDef)
_TEXT_METHODS = frozenset({"replace", "lower", "upper", "strip", "format", "rstrip", "lstrip"})
_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv", "environ.get", "getenv"})


class NotStatic(Exception):
    """The value is known only to a run of the file."""


class PythonFile:
    """
    A parsed file.

    :ivar tree: its syntax tree.
    :ivar text: where the marks in the values come from.
    """

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self._parts: list[ShellPart] = []
        self.text = ShellText(statements=[], parts=self._parts)
        self._parents = {
            child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)
        }
        self._assigned: dict[str, list[tuple[ast.AST, ast.expr]]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._assigned.setdefault(target.id, []).append((node, node.value))

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what ``node`` is in, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def is_repeated(self, node: ast.AST) -> bool:
        """Whether ``node`` is in a loop or a comprehension."""
        return any(
            isinstance(each, ast.For | ast.While | ast.comprehension | ast.ListComp)
            for each in self.parents(node)
        )

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression; a mark for what is not known of it."""
        try:
            return self._value(node, known=_nothing)
        except NotStatic:
            pass
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(item) for item in node.elts if not isinstance(item, ast.Starred)]
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            pairs = zip(node.keys, node.values, strict=True)
            return {key.value: self.value(item) for key, item in pairs if isinstance(key, ast.Constant)}
        if isinstance(node, ast.JoinedStr) and all(
            getattr(part, "format_spec", None) is None for part in node.values
        ):
            return "".join(str(self.value(_piece(part))) for part in node.values)
        if isinstance(node, ast.Name) and isinstance(
            found := self.assigned(node), ast.List | ast.Tuple | ast.Dict | ast.JoinedStr
        ):
            return self.value(found)
        return self._mark(node)

    def assigned(self, name: ast.Name) -> ast.expr | None:
        """Return what is assigned to ``name`` where it is used; ``None`` if that is not sure."""
        around = list(self.parents(name))
        scopes = [each for each in around if isinstance(each, _SCOPES)] + [self.tree]
        for scope in scopes:
            if isinstance(scope, _SCOPES) and name.id in _arguments(scope):
                return None
            found = [(at, value) for at, value in self._assigned.get(name.id, []) if self._scope(at) is scope]
            if scope is self._scope(name):  # what a function uses of the file, the whole file has assigned
                found = [(at, value) for at, value in found if value.lineno < name.lineno]
            if found:
                at, value = found[-1]
                return value if all(isinstance(each, _STRAIGHT) for each in self.parents(at)) else None
        return None

    def unknown(self, name: str, written: str, line: int) -> str:
        """
        Return a mark for a value that only a run could tell.

        :param name: what it is called as a param.
        :param written: what it was in the file, in words.
        """
        self._parts.append(ShellPart(text=written, name=name, where=f"in line {line}"))
        return mark(len(self._parts) - 1)

    def _scope(self, node: ast.AST) -> ast.AST:
        return next((each for each in self.parents(node) if isinstance(each, _SCOPES)), self.tree)

    def _mark(self, node: ast.expr) -> str:
        name = node.id if isinstance(node, ast.Name) else _environment_name(node)
        try:
            default = self._value(node, known=_default)
        except NotStatic:
            default = None
        part = ShellPart(
            text=ast.unparse(node),
            name=name,
            where=f"in line {node.lineno}",
            default=default if isinstance(default, str) else None,
        )
        self._parts.append(part)
        return mark(len(self._parts) - 1)

    def _value(self, node: ast.expr, *, known: Callable[[ast.Call], str | None]) -> Any:
        """:param known: the value of a call that asks the environment."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and (found := self.assigned(node)) is not None:
            return self._value(found, known=known)
        if isinstance(node, ast.Call) and (value := known(node)) is not None:
            return value
        return self._computed(node, lambda item: self._value(item, known=known))

    def _computed(self, node: ast.expr, of: Callable[[ast.expr], Any]) -> Any:
        """
        Return the value of an expression made of others.

        :param of: the value of each.
        """
        match node:
            case ast.List() | ast.Tuple():
                return [of(item) for item in node.elts]
            case ast.Dict() if None not in node.keys:
                return {of(key): of(item) for key, item in zip(node.keys, node.values, strict=True) if key}
            case ast.JoinedStr():
                return "".join(str(of(_piece(part))) for part in node.values)
            case ast.UnaryOp(op=ast.USub()):
                return -of(node.operand)
            case ast.BinOp(op=ast.Add() | ast.Mod()):
                return _computed(node.op, of(node.left), of(node.right))
            case ast.Call(func=ast.Attribute(attr=method, value=called), keywords=[]) if (
                method in _TEXT_METHODS
            ):
                text = of(called)
                if isinstance(text, str):
                    return getattr(text, method)(*map(of, node.args))
        raise NotStatic


def code_or_value(file: PythonFile, node: ast.expr) -> Any:
    """Return the value of an expression; a date or a duration as the code that makes it."""
    if isinstance(node, ast.Name) and isinstance(found := file.assigned(node), ast.Call):
        node = found
    if dotted(node).startswith("TriggerRule."):
        return dotted(node).rpartition(".")[2].lower()
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("datetime", "timedelta"):
        numbers = [*node.args, *(each.value for each in node.keywords)]
        if "pendulum" not in dotted(node.func) and all(isinstance(each, ast.Constant) for each in numbers):
            inside = ast.unparse(node).partition("(")[2]
            return Code(f"{dotted(node.func).rpartition('.')[2]}({inside}")
    return file.value(node)


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` of a name with attributes; empty for anything else. Pure."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def _nothing(_: ast.Call) -> None:
    return None


def _default(call: ast.Call) -> str | None:
    """Return the value that a look into the environment has if nothing is set."""
    if not _environment_name(call) or len(call.args) < 2 or not isinstance(call.args[1], ast.Constant):
        return None
    return str(call.args[1].value)


def _environment_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and dotted(node.func) in _ENVIRONMENT and node.args:
        name = node.args[0]
    elif isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
        name = node.slice
    else:
        return ""
    return str(name.value) if isinstance(name, ast.Constant) and str(name.value).isidentifier() else ""


def _piece(part: ast.expr) -> ast.expr:
    """Return what stands in a piece of an f-string."""
    if isinstance(part, ast.FormattedValue):
        if part.format_spec is not None:
            raise NotStatic
        return part.value
    return part


def _computed(operator: ast.operator, left: Any, right: Any) -> Any:
    try:
        if isinstance(operator, ast.Add):
            return left + right
        return left % (tuple(right) if isinstance(right, list) else right)
    except (TypeError, ValueError) as error:
        raise NotStatic from error


def _arguments(scope: ast.AST) -> set[str]:
    arguments = getattr(scope, "args", None)
    return {each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)} if arguments else set()
