"""A Python function as the program of a job."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from training_api.errors import InvalidArgument

#: Linux takes no longer argument (``MAX_ARG_STRLEN``).
_MAX_BYTES = 128 * 1024 - 1
_RUNNER = Path(__file__).with_name("function_runner.py")


def function_command(source: str) -> list[str]:
    """
    Return the command of a job that runs the one function of ``source``.

    :param source: the function's own text; it sees nothing else of its file.
    :raises InvalidArgument: it is too long.
    """
    (function,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    program = f"{_RUNNER.read_text(encoding='utf-8')}\n\n{source}\n\nrun({function.name})\n"
    _require_short(function.name, program)
    return ["python3", "-c", program]


def function_arguments(name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """
    Return the arguments of a job that calls the function ``name`` with these values.

    :raises InvalidArgument: a value is no JSON, or all of them are too long.
    """
    try:
        text = json.dumps({"args": list(args), "kwargs": dict(kwargs)}, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"the arguments of {name} travel as JSON, and these cannot: {error}; pass numbers, text, lists or "
            "mappings, and data by its address"
        ) from error
    _require_short(name, text)
    return [text]


def _require_short(name: str, text: str) -> None:
    size = len(text.encode())
    if size > _MAX_BYTES:
        raise InvalidArgument(
            f"{name} and its arguments must be at most {_MAX_BYTES} bytes each, as they travel in the job's "
            f"request; got {size}. Pass data by its address, and put code into the image"
        )
