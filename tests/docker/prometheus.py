"""A Prometheus for tests, and a bridge from Airflow's OpenTelemetry metrics to it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from local_stack.processes.packages import find_program
from tests.support import web
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from tests.support.waiting import wait_until


@contextmanager
def run_prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[httpx.Client]:
    """
    Run Prometheus until the block ends; the client asks it.

    :param targets: ``HOST:PORT`` to scrape every three seconds, by the job that it is.
    """
    config = {
        # A scrape may take as long. Of one that takes longer, all series are gone until the next.
        "global": {"scrape_interval": "3s"},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [target]}]} for name, target in targets.items()
        ],
    }
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(config))
    port = reserve_port()
    program = find_program("prometheus")
    assert program, "prometheus is not installed; make test installs it"
    command = [
        str(program),
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        with web.client(base_url=f"http://127.0.0.1:{port}") as client:
            wait_until(lambda: _is_ready(client), "Prometheus is ready")
            yield client
    finally:
        process.terminate()
        process.wait(scaled(60))


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


class OtelBridge(ThreadingHTTPServer):
    """
    Takes OTLP metrics at ``/v1/metrics`` and shows the newest values at ``/metrics``.

    Under the names that Prometheus gives them.

    What Prometheus 3 does by itself (``/api/v1/otlp``); Debian's is older. Source of the names: the
    specification's "Prometheus and OpenMetrics compatibility".
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _BridgeHandler)
        self.samples: dict[str, float] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """``HOST:PORT``."""
        return f"127.0.0.1:{self.server_port}"

    def take(self, body: bytes) -> None:
        """Keep the values of one export."""
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    is_counter = metric.HasField("sum") and metric.sum.is_monotonic
                    name = metric.name.replace(".", "_") + ("_total" if is_counter else "")
                    points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
                    for point in points:
                        labels = ",".join(
                            f'{each.key}="{each.value.string_value}"' for each in point.attributes
                        )
                        value = point.as_double if point.HasField("as_double") else point.as_int
                        self.samples[f"{name}{{{labels}}}"] = value


class _BridgeHandler(BaseHTTPRequestHandler):
    server: OtelBridge

    def do_POST(self) -> None:
        self.server.take(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(b"")

    def do_GET(self) -> None:
        lines = [f"{name} {value}\n" for name, value in dict(self.server.samples).items()]
        self._answer("".join(lines).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""
