"""
A server that takes resumable uploads as Cloud Storage does, and throws the bytes away.

``python -m benchmarks.support.object_sink PORT``. What a client needs against it, it needs for itself.
"""

from __future__ import annotations

import re
import sys

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    request = Request(scope, receive)
    async for _ in request.stream():
        pass
    answer: Response
    if request.method == "POST":
        answer = Response(headers={"location": f"http://{request.headers['host']}/upload?upload_id=1"})
    elif (found := _RANGE.fullmatch(request.headers.get("content-range", ""))) and int(found[2]) + 1 < int(
        found[3]
    ):
        answer = Response(status_code=308, headers={"range": f"bytes=0-{found[2]}"})
    else:
        answer = JSONResponse({"name": "sink", "bucket": "bench", "size": "0"})
    await answer(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), lifespan="off", log_level="error", access_log=False)
