"""
``make bench``: bring the stack up, ask every question, print and keep the answers.

``python -m benchmarks search`` asks one more, which takes too long to be asked each time (``search/``), and
``python -m benchmarks dags`` only those about the DAGs: how much longer a warm run is than the same by hand,
and how long a file takes to read; ``python -m benchmarks dashboard`` only those about the dashboard, and
``python -m benchmarks running`` only those about a thousand running jobs and a registry that hangs, and
``python -m benchmarks store`` only those about the object store, and ``python -m benchmarks vertex`` only
those that compare both dialects and the service's ports, on a stack without Airflow, and
``python -m benchmarks retraining`` only those about false promotions, which are simulated, and
``python -m benchmarks swarm`` only those about three machines; it needs root, and makes them by itself.
``python -m benchmarks swarm --quick`` asks the same a few times, prints the answers and keeps none.
"""

from __future__ import annotations

import sys

import docker
from docker.utils import kwargs_from_env

from benchmarks.on_service import (
    create_rate,
    dashboard,
    fleet_report,
    hanging_registry,
    many_running,
    poller,
    store_scale,
    vertex_calls,
)
from benchmarks.on_stack import (
    dag_parse,
    demo_time,
    distributed,
    footprint,
    log_flood,
    service_start,
    submit_latency,
    tuning,
    unchanged_images,
    warm_dag,
)
from benchmarks.on_store import large_objects, many_objects
from benchmarks.on_swarm import idle, lost_machine, reports, slots, start
from benchmarks.report import Figure, print_report, tell
from benchmarks.retraining import nights
from benchmarks.search import comparison, early_stopping
from benchmarks.support.three_machines import three_machines
from local_stack.parts.base_image import BaseImage
from local_stack.people.credentials import registry_login
from local_stack.settings import ALL_PARTS, SERVE_PARTS, StackSettings
from local_stack.stack import LocalStack


def main() -> int:
    """Return 0 if every figure is within its limit."""
    stack = _stack()
    figures = {"make demo": demo_time.measure()}
    image = _pushed_image(stack)
    figures["submit"] = submit_latency.measure(stack, image)
    figures["several replicas"] = distributed.measure(stack, image)
    figures["log flood"] = log_flood.measure(stack, image)
    figures["unchanged images"] = unchanged_images.measure(stack)
    figures["warm DAG"] = warm_dag.measure(stack)
    figures["DAG files"] = dag_parse.measure()
    figures["idle"] = footprint.measure(stack)
    figures["start"] = service_start.measure(stack)
    figures["reads"] = vertex_calls.measure()
    figures["stored jobs"] = store_scale.measure()
    figures["create rate"] = create_rate.measure()
    figures["running jobs"] = many_running.measure()
    figures["hanging registry"] = hanging_registry.measure()
    figures["tuning"] = tuning.measure(stack, image)
    figures["early stopping"] = early_stopping.measure()
    figures["waits"] = poller.measure()
    figures["dashboard"] = dashboard.measure()
    figures["fleet page"] = fleet_report.measure()
    figures.update(_of_the_store())
    return tell(figures)


def _stack() -> LocalStack:
    """Return the stack, with the benchmarks' own DAGs."""
    warm_dag.add_dags()
    stack = LocalStack(StackSettings())
    stack.up(ALL_PARTS)
    return stack


def _of_the_store() -> dict[str, list[Figure]]:
    return {"large objects": large_objects.measure(), "many objects": many_objects.measure()}


def measure_dags() -> int:
    """Return 0 if the figures of the DAGs are within their limits."""
    stack = _stack()
    figures = {"DAG files": dag_parse.measure()}
    demo_time.measure()  # the warm run is one after it
    figures["warm DAG"] = warm_dag.measure(stack)
    return tell(figures, "dags-")


def measure_vertex() -> int:
    """Return 0 if the figures of both dialects are within their limits."""
    stack = LocalStack(StackSettings())
    stack.up(SERVE_PARTS)
    figures = {"submit": submit_latency.measure(stack, _pushed_image(stack))}
    figures["idle"] = footprint.measure_service(stack)
    figures["start"] = service_start.measure(stack)
    figures["reads"] = vertex_calls.measure()
    return tell(figures, "vertex-")


def measure_swarm(is_quick: bool) -> int:
    """Return 0 if the figures of three machines are within their limits."""
    with three_machines() as machines:
        figures = {
            "agents": idle.measure(machines, *([10.0] if is_quick else [])),
            "start": start.measure(machines, *([2] if is_quick else [])),
            "slots": slots.measure(machines, *([8] if is_quick else [])),
            "reports": reports.measure(machines),
            "a machine dies": lost_machine.measure(machines),
        }
    return int(not print_report(figures)) if is_quick else tell(figures, "swarm-")


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
            return comparison.main(more)
        case ["dags"]:
            return measure_dags()
        case ["running"]:
            return tell(
                {"running jobs": many_running.measure(), "hanging registry": hanging_registry.measure()},
                "running-",
            )
        case ["dashboard"]:
            return tell(
                {"dashboard": dashboard.measure(), "fleet page": fleet_report.measure()}, "dashboard-"
            )
        case ["store"]:
            return tell(_of_the_store(), "store-")
        case ["vertex"]:
            return measure_vertex()
        case ["retraining"]:
            return tell({"retraining": nights.measure()}, "retraining-")
        case ["swarm", *more] if more in ([], ["--quick"]):
            return measure_swarm(bool(more))
        case []:
            return main()
    print(
        "expected nothing, search, dags, running, dashboard, store, vertex, retraining or swarm; "
        f"got {' '.join(arguments)}",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
