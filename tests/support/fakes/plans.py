"""Plans of a training run, as they are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from container_training.work.plan.plan import (
    Plan,
    PlanInputs,
    PlannedAccess,
    PlannedCost,
    PlannedImage,
    PlannedMachines,
    PlannedParts,
)

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def make_image(**changes: Any) -> PlannedImage:
    parts = PlannedParts(dockerfile="Dockerfile", files={"task.py": "a"}, build_args={}, base_images={})
    given: dict[str, Any] = {
        "roles": ["master"],
        "ref": "reg.test/demo/digits:ctx-1",
        "context_hash": "1",
        "parts": parts,
        "on_engine": False,
        "actions": ["build", "push"],
    }
    return PlannedImage(**(given | changes))


def make_access(**changes: Any) -> PlannedAccess:
    given: dict[str, Any] = {
        "image": "reg.test/demo/digits",
        "member": "serviceAccount:agent@test.example",
        "is_granted_by_plan": True,
        "reason": "agent gets reader",
        "role": "roles/artifactregistry.reader",
        "resource_kind": "REPOSITORY",
        "resource": "projects/p/locations/l/repositories/r",
        "etag": "e1",
    }
    return PlannedAccess(**(given | changes))


def make_plan(**changes: Any) -> Plan:
    given: dict[str, Any] = {
        "created_at": NOW,
        "service": "http://training.test",
        "project": "demo",
        "inputs": PlanInputs(config_file="/jobs/config.yaml"),
        "config_sha256": "c1",
        "request": {"jobId": "digits_1", "trainingInput": {"region": "us-central1", "args": ["--lr=0.1"]}},
        "images": [make_image()],
        "access": [make_access()],
        "machines": [PlannedMachines(role="master", count=1, machine_type="n1-standard-4")],
        "cost": PlannedCost(per_hour=36.0, currency="EUR"),
    }
    return Plan(**(given | changes)).sealed()
