"""A server with what Google's APIs say of one project."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.loopback_server import serving

NUMBER = "608533675308"
AGENT = f"serviceAccount:service-{NUMBER}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
#: Shapes: the discovery documents; zeros may be left out, as in all of Google's JSON.
_REFUSAL = {403: "PERMISSION_DENIED", 404: "NOT_FOUND", 503: "UNAVAILABLE"}


class GoogleProject:
    """
    Answers by path; what it does not know is 404.

    :ivar answers: path, as it is sent -> JSON, or the status of a refusal.
    :ivar asked: path and query of each request.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/v1/projects/my-project": {"projectNumber": NUMBER},
            "/storage/v1/b/jobs/iam/testPermissions": {
                "permissions": ["storage.objects.create", "storage.objects.get", "storage.objects.list"]
            },
        }
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.tokens: set[str | None] = set()

    def has_policy(self, resource: str, role: str = "", member: str = AGENT, **binding: Any) -> None:
        """Give ``resource`` a policy of one binding, or of none."""
        bindings = [{"role": role, "members": [member], **binding}] if role else []
        self.answers[f"/v1/{resource}:getIamPolicy"] = {"etag": "e", "bindings": bindings}

    def has_machines(self, listed: str, name: str, *zones: str) -> None:
        """Show a machine type or accelerator in ``zones``, and none of it in another one."""
        items = {f"zones/{zone}": {listed: [{"name": name}]} for zone in zones}
        empty = {"zones/asia-east1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        self.answers[f"/compute/v1/projects/my-project/aggregated/{listed}"] = {"items": {**items, **empty}}

    def has_quota(self, name: str, *limits: dict[str, Any]) -> None:
        """Give a quota of Vertex AI its limits."""
        self.answers[quota_path(name)] = {"consumerQuotaLimits": list(limits)}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        self.asked.append((url.path, parse_qs(url.query)))
        self.tokens.add(request.headers.get("Authorization"))
        found = self.answers.get(url.path, 404)
        if isinstance(found, int):
            error = {"code": found, "status": _REFUSAL[found], "message": f"refused with {found}"}
            status, content = found, {"error": error}
        else:
            status, content = 200, found
        body = json.dumps(content).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def quota_path(name: str) -> str:
    """Return the path of a quota of custom training."""
    metric = f"aiplatform.googleapis.com%2Fcustom_model_training_{name}"
    services = f"/v1beta1/projects/{NUMBER}/services"
    return f"{services}/aiplatform.googleapis.com/consumerQuotaMetrics/{metric}"


def limit(*buckets: tuple[str, int | None], unit: str = "1/{project}/{region}") -> dict[str, Any]:
    """
    Return a limit.

    :param buckets: region, or empty for all, and its effective limit; ``None``: left out, as zeros are.
    """
    return {
        "unit": unit,
        "quotaBuckets": [
            {
                **({"effectiveLimit": str(value)} if value is not None else {}),
                **({"dimensions": {"region": region}} if region else {}),
            }
            for region, value in buckets
        ],
    }


@contextmanager
def serve(project: GoogleProject) -> Iterator[str]:
    """Serve ``project`` on loopback; give the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the base class's name
            project.answer(self)

        def do_POST(self) -> None:  # the base class's name
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            project.answer(self)

    with serving(Handler) as url:
        yield url
