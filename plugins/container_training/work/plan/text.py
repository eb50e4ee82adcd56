"""A plan for people. Without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator

from container_training.work.plan.plan import Plan, PlannedAccess, PlannedImage, PlannedMachines


def plan_lines(plan: Plan) -> Iterator[str]:
    """
    Yield the lines that show ``plan``. Pure.

    Headings end in a colon and are not indented.
    """
    yield f"job {plan.job_id} for {plan.service}, project {plan.project}:"
    yield from _indented(json.dumps(plan.request, indent=2, ensure_ascii=False))
    yield "images:"
    for image in plan.images:
        yield from _image(image)
    if not plan.images:
        yield "  none: the job runs packages on an image of the service's own"
    yield "access:"
    for access in plan.access:
        yield f"  {_access(access)}"
    if not plan.access:
        yield "  nothing to grant"
    yield "machines:"
    for machines in plan.machines:
        yield f"  {_machines(machines)}"
    yield "cost:"
    yield f"  {_cost(plan)}"
    yield "to apply it:"
    for blocker in plan.blockers:
        yield f"  not possible: {blocker}"
    if not plan.blockers:
        yield "  nothing was changed; python -m container_training apply PLAN does all this"


def _image(image: PlannedImage) -> Iterator[str]:
    yield f"  {image.ref} ({', '.join(image.roles)})"
    if image.context_hash:
        yield f"    {_to_do(image)}"
        yield from (f"    {line}" for line in image.changes)
        if not image.digest:
            yield "    the request names it by tag here, and by digest once the registry has it"
    if image.digest:
        yield f"    in the registry as {image.digest}"
    if image.note:
        yield f"    {image.note}"


def _to_do(image: PlannedImage) -> str:
    if "build" in image.actions:
        return "would be built and pushed: no image with these contents is on the engine"
    if "pull" in image.actions:
        return "would be pulled: the registry has it, so that nothing is built"
    if image.actions:
        return "is on the engine, and would be pushed"
    return "is on the engine and in the registry: nothing to build, nothing to push"


def _access(access: PlannedAccess) -> str:
    return f"{'GRANT ' if access.is_granted_by_plan else ''}{access.reason}"


def _machines(machines: PlannedMachines) -> str:
    gpus = f" with {machines.gpus} {machines.gpu}" if machines.gpus and machines.gpu else ""
    return f"{machines.role}: {machines.count} x {machines.machine_type}{gpus}"


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost.per_hour is None:
        return f"not known: {cost.reason}"
    trials = f", {cost.parallel_trials} trials side by side" if cost.parallel_trials > 1 else ""
    return f"{cost.per_hour:.4g} {cost.currency}".rstrip() + f" per hour{trials}"


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
