"""
Sends samples through the code that serves a resource: what is refused, what is answered.

A path names a field of the resource: ``trainingInput.hyperparameters.params[].type``; ``[]`` is the first
element of a list.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from docs.tools.fidelity.note import Sample
from training_api.cached import cached_property

#: A field that is refused, and why; no field: the request as a whole cannot be read.
Refusal = tuple[str, str]


class Probe(ABC):
    """A kind of resource, and the code that serves it."""

    #: The smallest good request.
    minimal: Mapping[str, Any]

    @abstractmethod
    def is_readable(self, request: Mapping[str, Any]) -> bool:
        """Tell whether the wire has all the request's fields."""

    @abstractmethod
    def refusals(self, request: Mapping[str, Any]) -> Iterable[Refusal]:
        """Return what is refused of a request."""

    @abstractmethod
    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a good request."""

    @abstractmethod
    def answers(self) -> Iterable[Mapping[str, Any]]:
        """Yield answers that together have all that the service can set."""

    def is_known(self, path: str) -> bool:
        """Whether the wire has the field: ``null`` is good for every field that it has."""
        return self.is_readable(self._request(path, Sample(value=None)))

    def refusal_of(self, path: str, sample: Sample) -> Refusal | None:
        """
        Return the field that is refused, this one or one above it, and the words.

        ``None``: it is not refused.
        """
        for field, words in self.refusals(self._request(path, sample)):
            if not field:
                return indexed(path), words
            if f"{indexed(path)}.".startswith((f"{field}.", f"{field}[")):
                return field, words.partition("; got ")[0]
        return None

    def is_echoed(self, path: str, sample: Sample) -> bool:
        """Whether the answer to a request with the sample has the same value at ``path``."""
        sent = self._request(path, sample)
        if any(self.refusals(sent)):
            return False
        return list(_values(self.answer(sent), path)) == list(_values(sent, path))

    @cached_property
    def answered_paths(self) -> frozenset[str]:
        """The path of every field in the answer for a resource that has all that can be set."""
        return frozenset(_paths(self.answers()))

    def _request(self, path: str, sample: Sample) -> dict[str, Any]:
        """Return the minimal request with ``sample`` at ``path``."""
        request: dict[str, Any] = json.loads(json.dumps(self.minimal))
        for where, what in {**sample.beside, path: sample.value}.items():
            at: Any = request
            *parents, name = where.split(".")
            for parent in parents:
                element = parent.removesuffix("[]")
                at = at.setdefault(element, {}) if element == parent else at.setdefault(element, [{}])[0]
            at[name] = what
        return request


def _values(tree: Any, path: str) -> Iterator[Any]:
    """Yield what ``tree`` has at ``path``; nothing where it has nothing."""
    name, _, rest = path.partition(".")
    found = tree.get(name.removesuffix("[]")) if isinstance(tree, Mapping) else None
    for value in (found or []) if name.endswith("[]") else [found]:
        if rest:
            yield from _values(value, rest)
        elif value is not None:
            yield value


def _paths(trees: Iterable[Any], place: str = "") -> Iterator[str]:
    """Yield the path of every field in ``trees``, resources of one kind."""
    for tree in trees:
        for name, value in tree.items() if isinstance(tree, Mapping) else ():
            path = join(place, name)
            yield path
            yield from _paths(value, f"{path}[]") if isinstance(value, list) else _paths([value], path)


def join(place: str, name: str) -> str:
    """Return the path of the field ``name`` at ``place``."""
    return f"{place}.{name}" if place else name


def indexed(path: str) -> str:
    """Return ``path`` as violations name it: ``params[0].type``."""
    return path.replace("[]", "[0]")
