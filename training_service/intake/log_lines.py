"""
A trainer's line as the payload of a log entry.

Text as it is, a JSON object by the rules of structured logging.

Pure. Source: cloud.google.com/logging/docs/structured-logging (special fields) and the names of severities
that Google's logging agent translates (github.com/GoogleCloudPlatform/fluent-plugin-google-cloud,
``parse_severity``). Deviations: fields named ``logging.googleapis.com/...`` and ``httpRequest`` stay in the
payload; a ``message`` that is no text is kept as its JSON, as gcloud ends with an error on any other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from container_engines.base import LogStream
from training_api.cloud_logging import Severity

#: The Logging API takes entries up to 256 KB; a longer line is cut, and says so.
MAX_TEXT_CHARACTERS = 200_000
#: A protocol buffer ``Struct`` may nest 100 deep, two levels a JSON level.
_MAX_DEPTH = 50
#: Logging refuses entries that are further in the future; one as far in the past has a wrong clock.
_MAX_CLOCK_DIFFERENCE = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: As AI Platform Training shows them: standard error is ERROR, standard output INFO.
_BY_STREAM = {LogStream.STDOUT: Severity.INFO, LogStream.STDERR: Severity.ERROR}
_OTHER_NAMES = {
    "WARN": Severity.WARNING,
    "FATAL": Severity.CRITICAL,
    "CRIT": Severity.CRITICAL,
    "ERR": Severity.ERROR,
    "SEVERE": Severity.ERROR,
    "INFORMATION": Severity.INFO,
    "TRACE": Severity.DEBUG,
    "FINE": Severity.DEBUG,
    "FINER": Severity.DEBUG,
    "FINEST": Severity.DEBUG,
    "CONFIG": Severity.DEBUG,
    "EMERG": Severity.EMERGENCY,
    "D": Severity.DEBUG,
    "I": Severity.INFO,
    "N": Severity.NOTICE,
    "W": Severity.WARNING,
    "E": Severity.ERROR,
    "F": Severity.CRITICAL,
    "C": Severity.CRITICAL,
    "A": Severity.ALERT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """
    What a line says; one of ``text`` and ``json_payload`` is set.

    :param timestamp: when the line says it was written, else when the engine got it.
    """

    severity: Severity
    timestamp: datetime
    text: str | None = None
    json_payload: dict[str, Any] | None = None


def read_payload(text: str, stream: LogStream, received_at: datetime) -> Payload:
    """
    Return the payload of one line.

    :param received_at: when the engine got it (aware).
    """
    payload = _json_object(text)
    if payload is None:
        return Payload(severity=_BY_STREAM[stream], timestamp=received_at, text=_as_text(text))
    severity = severity_of(payload.pop("severity")) if "severity" in payload else _BY_STREAM[stream]
    timestamp = _take_time(payload, received_at)
    message = payload.get("message")
    if message is not None and not isinstance(message, str):
        payload["message"] = json.dumps(message, ensure_ascii=False)
    return Payload(severity=severity, timestamp=timestamp, json_payload=payload)


def severity_of(value: object) -> Severity:
    """
    Return the severity that ``value`` names; else DEFAULT.

    Any case, a number or a common abbreviation.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return Severity.DEFAULT
    name = str(value).strip().upper()
    if name in Severity.__members__:
        return Severity[name]
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    try:
        number = float(name)
    except ValueError:
        return Severity.DEFAULT
    # NaN and what lies below all of them is DEFAULT.
    return max(
        (one for one in Severity if one.number <= number),
        key=lambda one: one.number,
        default=Severity.DEFAULT,
    )


def _json_object(text: str) -> dict[str, Any] | None:
    """Return the object that ``text`` is, if every reader of the log can read it, too."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")) or len(stripped) > MAX_TEXT_CHARACTERS:
        return None
    try:
        found = json.loads(stripped, parse_constant=_refuse)
        # Half of a surrogate pair is JSON, but no UTF-8; 1e999 is read as infinity, which is no JSON.
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _depth_is_at_most(found, _MAX_DEPTH) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _depth_is_at_most(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    if depth == 0:
        return False
    inner = value.values() if isinstance(value, dict) else value
    return all(_depth_is_at_most(one, depth - 1) for one in inner)


def _take_time(payload: dict[str, Any], received_at: datetime) -> datetime:
    """
    Return the time in ``payload``, and remove it there.

    A time that cannot be used is left in it.
    """
    for fields, moment in _times(payload):
        if moment is not None and abs(moment - received_at) <= _MAX_CLOCK_DIFFERENCE:
            for field in fields:
                payload.pop(field, None)
            return moment
    return received_at


def _times(payload: dict[str, Any]) -> list[tuple[tuple[str, ...], datetime | None]]:
    stamp = payload.get("timestamp")
    split = stamp if isinstance(stamp, dict) else {}
    return [
        (("timestamp",), _from_seconds(split.get("seconds"), split.get("nanos", 0))),
        (("timestamp",), _from_text(stamp)),
        (
            ("timestampSeconds", "timestampNanos"),
            _from_seconds(payload.get("timestampSeconds"), payload.get("timestampNanos", 0)),
        ),
        (("time",), _from_text(payload.get("time"))),
    ]


def _from_seconds(seconds: object, nanos: object) -> datetime | None:
    try:
        whole, rest = int(str(seconds)), int(str(nanos))
        return _EPOCH + timedelta(seconds=whole, microseconds=rest // 1000)
    except (ValueError, OverflowError):
        return None


def _from_text(text: object) -> datetime | None:
    """Return an RFC 3339 time; one without a zone is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _as_text(text: str) -> str:
    """Return ``text`` without what a database refuses, and cut."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:MAX_TEXT_CHARACTERS]} [cut: {len(text)} characters]"
