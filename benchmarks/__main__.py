"""
``make bench``: bring the stack up, ask every question, print and keep the answers.

``python -m benchmarks search`` asks one more, which takes too long to be asked each time (``search.py``), and
``python -m benchmarks dags`` only those about the DAGs: how much longer a warm run is than the same by hand,
and how long a file takes to read; ``python -m benchmarks dashboard`` only those about the dashboard, which
need no stack.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import docker
from docker.utils import kwargs_from_env

from benchmarks import (
    create_rate,
    dag_parse,
    dashboard,
    demo_time,
    distributed,
    early_stopping,
    fleet_report,
    footprint,
    log_flood,
    poller,
    search,
    store_scale,
    submit_latency,
    tuning,
    unchanged_images,
    warm_dag,
)
from benchmarks.report import Figure, print_report, write_report
from local_stack.parts.base_image import BaseImage
from local_stack.people.credentials import registry_login
from local_stack.settings import ALL_PARTS, StackSettings
from local_stack.stack import LocalStack


def main() -> int:
    """Return 0 if every figure is within its limit."""
    stack = LocalStack(StackSettings())
    stack.up(ALL_PARTS)
    figures = {"make demo": demo_time.measure()}
    image = _pushed_image(stack)
    figures["submit"] = submit_latency.measure(stack, image)
    figures["several replicas"] = distributed.measure(stack, image)
    figures["log flood"] = log_flood.measure(stack, image)
    figures["unchanged images"] = unchanged_images.measure(stack)
    figures["warm DAG"] = warm_dag.measure(stack)
    figures["DAG files"] = dag_parse.measure()
    figures["idle"] = footprint.measure(stack)
    figures["stored jobs"] = store_scale.measure()
    figures["create rate"] = create_rate.measure()
    figures["tuning"] = tuning.measure(stack, image)
    figures["early stopping"] = early_stopping.measure()
    figures["waits"] = poller.measure()
    figures["dashboard"] = dashboard.measure()
    figures["fleet page"] = fleet_report.measure()
    return _told(figures)


def measure_dags() -> int:
    """Return 0 if the figures of the DAGs are within their limits."""
    stack = LocalStack(StackSettings())
    stack.up(ALL_PARTS)
    figures = {"DAG files": dag_parse.measure()}
    demo_time.measure()  # the warm run is one after it
    figures["warm DAG"] = warm_dag.measure(stack)
    return _told(figures, "dags-")


def _told(figures: Mapping[str, list[Figure]], prefix: str = "") -> int:
    """Print and keep ``figures``; return 0 if each is within its limit."""
    holds = print_report(figures)
    print(f"written to {write_report(figures, prefix)}")
    return 0 if holds else 1


def _pushed_image(stack: LocalStack) -> str:
    """Push the base image and return it by digest."""
    client = docker.APIClient(**kwargs_from_env())
    repository = f"{stack.settings.image_prefix}/bench"
    client.tag(BaseImage.name_of(stack.settings), repository, "base")
    digests = []
    login = registry_login(stack.settings)
    for line in client.push(repository, tag="base", stream=True, decode=True, auth_config=login):
        if "error" in line:
            raise RuntimeError(f"cannot push {repository}: {line['error']}")
        digests += [line["aux"]["Digest"]] if "aux" in line else []
    return f"{repository}@{digests[0]}"


def run(arguments: list[str]) -> int:
    """Run the benchmarks that ``arguments`` name; return their exit status."""
    match arguments:
        case ["search", *more]:
            return search.main(more)
        case ["dags"]:
            return measure_dags()
        case ["dashboard"]:
            return _told(
                {"dashboard": dashboard.measure(), "fleet page": fleet_report.measure()}, "dashboard-"
            )
        case []:
            return main()
    print(f"expected nothing, search, dags or dashboard; got {' '.join(arguments)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
