"""Questions to the training service, as far as it takes them."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from training_api.errors import TrainingError
from training_api.wire import WireModel

_Question = TypeVar("_Question", bound=WireModel)


class RefusedQuestion(TrainingError):
    """What was asked for leads to a question that the training service does not take."""


def question(kind: type[_Question], **fields: Any) -> _Question:
    """Return the question. :raises RefusedQuestion: names the fields that are not taken."""
    try:
        return kind(**fields)
    except ValidationError as error:
        parts = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise RefusedQuestion("; ".join(parts)) from error
