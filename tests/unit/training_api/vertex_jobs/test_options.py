"""The options that only Vertex AI has."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.errors import InvalidJobSpec
from training_api.job.violations import Violations
from training_api.vertex_jobs.options import NO_OPTIONS, VertexOptions

GOOD: dict[str, Any] = {
    "regions": "europe-west4",
    "strategy": "SPOT",
    "reservation": "ANY",
    "env": {"A": "1"},
    "env_of_roles": {"worker": {"A": "2"}},
    "nfs_mounts": [{"server": "s", "path": "/p", "mount_point": "m"}],
    "disable_retries": True,
    "conditional_parameters": {"x": [{}]},
    "network": None,
}


def checked(options: dict[str, Any]) -> dict[str, str]:
    rules = Violations()
    VertexOptions.of(options).check(rules)
    return {each.field: each.description for each in rules.found}


def test_a_mapping_becomes_options() -> None:
    options = VertexOptions.of(GOOD)

    assert checked(GOOD) == {}
    assert (options.strategy, options.reservation, options.disable_retries) == ("SPOT", ("ANY",), True)
    assert options.network == ""
    assert options.regions == ("europe-west4",)
    assert VertexOptions.of({"regions": ""}).regions == ()
    assert options.variables_of("worker") == [{"name": "A", "value": "2"}]
    assert options.variables_of("master") == [{"name": "A", "value": "1"}]
    assert options.mounts == [{"server": "s", "path": "/p", "mountPoint": "m"}]
    assert VertexOptions.of({}) == NO_OPTIONS


def test_unknown_names_and_wrong_types_are_refused_all_at_once() -> None:
    wrong = dict.fromkeys(GOOD, 7) | {"spot": True, "reservation": [1], "network": 7}
    with pytest.raises(InvalidJobSpec) as caught:
        VertexOptions.of(wrong)

    assert {each.field for each in caught.value.violations} == {f"vertex_options.{name}" for name in wrong}
    (unknown,) = (each for each in caught.value.violations if each.field.endswith(".spot"))
    assert "strategy" in unknown.description


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"strategy": "CHEAP"}, "strategy"),
        ({"max_wait_duration": "60s"}, "max_wait_duration"),
        ({"max_wait_duration": "1h", "strategy": "FLEX_START"}, "max_wait_duration"),
        ({"reservation": "mine"}, "reservation[0]"),
        ({"reservation": ["ANY", ""]}, "reservation[1]"),
        ({"persistent_resource_id": "My_Machines"}, "persistent_resource_id"),
        ({"nfs_mounts": [{"server": "s"}]}, "nfs_mounts[0]"),
        ({"env": {"1A": ""}}, "env[0].name"),
        ({"env_of_roles": {"ps": {}}}, "env_of_roles.ps"),
        ({"executor_image_uri": "busybox"}, "executor_image_uri"),
    ],
)
def test_values_that_break_a_rule_are_named(options: dict[str, Any], field: str) -> None:
    assert f"vertex_options.{field}" in checked(options)


@pytest.mark.parametrize(
    ("reservation", "affinity"),
    [
        ([], {}),
        ("ANY", {"reservationAffinityType": "ANY_RESERVATION"}),
        ("NONE", {"reservationAffinityType": "NO_RESERVATION"}),
    ],
)
def test_a_reservation_in_general_is_a_word(reservation: Any, affinity: dict[str, Any]) -> None:
    assert VertexOptions.of({"reservation": reservation}).reservation_affinity == affinity
