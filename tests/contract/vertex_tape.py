"""What a client asks Google's hosts, and the answers, as JSON that is the same in each run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

FOLDER = Path(__file__).parent / "vertex"
#: Keys whose values differ from run to run, and what stands for them.
_VARYING = {"etag": "etag", "insertId": "entry", "nextPageToken": "page", "pageToken": "page"}
#: Of a job; a project's has 12 digits.
_NUMBER = re.compile(r"(?<!\d)\d{16,19}(?!\d)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_FIRST_NUMBER = 1_000_000_000_000_000_001

Answer = Callable[[httpx.Request], httpx.Response]


class Tape(httpx.BaseTransport):
    """Passes requests on to ``answer``, and keeps both."""

    def __init__(self, answer: Answer) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self._answer = answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        response = self._answer(request)
        response.read()
        asked: dict[str, Any] = {"method": request.method, "url": str(request.url.copy_with(query=None))}
        if request.url.query:
            asked["query"] = dict(request.url.params)
        if request.content:
            asked["body"] = json.loads(request.content)
        self.exchanges.append(
            {"request": asked, "answer": {"status": response.status_code, "body": response.json()}}
        )
        return response


def to_service(endpoint: str, http: httpx.Client) -> Answer:
    """Return what brings requests to Google's hosts to a service of this project."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = "/vertex" if request.url.host.endswith("aiplatform.googleapis.com") else ""
        url = f"{endpoint}{path}{request.url.raw_path.decode()}"
        return http.request(
            request.method, url, content=request.content, headers={"Content-Type": "application/json"}
        )

    return answer


def settled(recording: Any) -> Any:
    """Return a recording with the same numbers, tokens and times in each run."""
    text = json.dumps(recording)
    numbers = {found: str(_FIRST_NUMBER + place) for place, found in enumerate(_in_order(_NUMBER, text))}
    for found, number in numbers.items():
        text = text.replace(found, number)
    return _renamed(json.loads(_MOMENT.sub("2026-01-01T00:00:00Z", text)), {})


def _in_order(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(found.group() for found in pattern.finditer(text)))


def _renamed(value: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _renamed(each, names, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    if key in _VARYING and value:
        return names.setdefault(value, f"{_VARYING[key]}-{len(names) + 1}")
    return value


def shape_of(value: Any) -> Any:
    """Return the keys and types of JSON; of a list, those of all items together."""
    if isinstance(value, dict):
        return {name: shape_of(each) for name, each in value.items()}
    if isinstance(value, list):
        shapes = [shape_of(each) for each in value]
        if all(isinstance(each, dict) for each in shapes):
            return [{name: each for shape in shapes for name, each in shape.items()}]
        return sorted({str(each) for each in shapes})
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )
