"""
The JSON of every protocol that the project speaks: models, integers, numbers and times.

int64 fields are accepted as string or number and answered as string, as Google's APIs do. Unknown fields are
refused.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)
from pydantic.alias_generators import to_camel


def format_timestamp(moment: datetime) -> str:
    """
    Return ``moment`` (aware) as RFC 3339 in UTC with microseconds.

    ``2026-11-20T09:30:00.000000Z``.
    """
    # Ten times as fast as strftime: tables of thousands of jobs have four of them a row.
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _double(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"a timestamp must carry a time zone, got {moment.isoformat()!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(
            f"a timestamp must lie in the years 1 to 9999 UTC, got {moment.isoformat()!r}"
        ) from error


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("an integer cannot be a boolean")
    return value


#: A 64-bit integer: string or number in, string out.
Int64 = Annotated[
    int,
    BeforeValidator(_not_bool),
    Field(ge=-(2**63), le=2**63 - 1),
    PlainSerializer(str, return_type=str, when_used="json-unless-none"),
]
#: A 32-bit integer, a number on the wire; pydantic alone would read ``false`` as 0.
Int32 = Annotated[int, BeforeValidator(_not_bool), Field(ge=-(2**31), le=2**31 - 1)]
Double = Annotated[float, PlainSerializer(_double, when_used="json-unless-none")]
#: An aware UTC datetime, RFC 3339 on the wire.
Timestamp = Annotated[
    datetime,
    AfterValidator(_to_utc),
    PlainSerializer(format_timestamp, return_type=str, when_used="json-unless-none"),
]


class WireModel(BaseModel):
    """
    camelCase on the wire, snake_case in Python (both accepted); immutable.

    Unknown fields are refused.
    """

    model_config = ConfigDict(
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        # A DAG file imports twenty of these and uses none: to build them is a third of its time.
        defer_build=True,
        # No limit in practice. But any limit makes pydantic look into the text, and refuse lone surrogates:
        # JSON can carry them ("\ud800"), UTF-8 cannot, and a stored one would break every answer that
        # contains it.
        str_max_length=2**31 - 1,
    )

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object that goes over the wire; fields without a value are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def build_all(cls) -> None:
        """
        Build what validates and serialises the models below this one that are defined by now.

        For a server: its first answers need not wait, and FastAPI, which takes them apart, finds them whole.
        """
        for model in cls.__subclasses__():
            model.model_config["defer_build"] = False
            model.model_rebuild()
            model.build_all()
