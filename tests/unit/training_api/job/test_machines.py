"""Machine types, and how they fit onto a host."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.job.machines import (
    GIB,
    HOST_RESERVE_BYTES,
    MACHINE_TYPES,
    MachineFamily,
    MachineType,
    Resources,
    fit,
    is_scaled_down,
    usable,
)

#: [docs: machine-types-online-prediction]: name, cores, GB.
DOCUMENTED = [
    ("n1-standard-4", 4, 15.0),
    ("n1-standard-8", 8, 30.0),
    ("n1-standard-16", 16, 60.0),
    ("n1-standard-32", 32, 120.0),
    ("n1-highmem-2", 2, 13.0),
    ("n1-highmem-4", 4, 26.0),
    ("n1-highmem-8", 8, 52.0),
    ("n1-highmem-16", 16, 104.0),
    ("n1-highmem-32", 32, 208.0),
    ("n1-highcpu-8", 8, 7.2),
    ("n1-highcpu-16", 16, 14.4),
    ("n1-highcpu-32", 32, 28.8),
]
#: Legacy names that carry accelerators, and how many.
LEGACY_GPUS = {
    "standard_gpu": 1,
    "standard_p100": 1,
    "standard_v100": 1,
    "large_model_v100": 1,
    "complex_model_m_gpu": 4,
    "complex_model_m_p100": 4,
    "complex_model_m_v100": 4,
    "complex_model_l_gpu": 8,
    "complex_model_l_v100": 8,
}
SMALL = MACHINE_TYPES["n1-standard-4"]

cores = st.floats(0.1, 512, allow_nan=False)
byte_counts = st.integers(1, 4096 * GIB)
resources = st.builds(Resources, cpus=cores, memory_bytes=byte_counts)
machines = st.sampled_from(list(MACHINE_TYPES.values()))


@pytest.mark.parametrize(("name", "cpus", "memory_gb"), DOCUMENTED)
def test_a_documented_machine_has_its_documented_size(name: str, cpus: int, memory_gb: float) -> None:
    machine = MACHINE_TYPES[name]

    assert machine == MachineType(name=name, cpus=cpus, memory_bytes=int(memory_gb * GIB))


def test_every_machine_is_found_by_its_own_name() -> None:
    assert all(name == machine.name for name, machine in MACHINE_TYPES.items())


def test_the_legacy_names_carry_their_accelerators() -> None:
    legacy = {
        name: machine.gpus
        for name, machine in MACHINE_TYPES.items()
        if machine.gpus and machine.family is MachineFamily.LEGACY
    }

    assert legacy == LEGACY_GPUS


def test_a_machine_has_accelerators_of_a_kind_or_none() -> None:
    assert all(bool(machine.gpus) == (machine.gpu is not None) for machine in MACHINE_TYPES.values())


def test_every_legacy_size_is_marked_as_uncertain() -> None:
    legacy = [machine for machine in MACHINE_TYPES.values() if machine.family is MachineFamily.LEGACY]

    assert len(legacy) == 14
    assert not any(machine.certain for machine in legacy)


@pytest.mark.parametrize(
    ("host", "limits", "expected"),
    [
        (Resources(cpus=8, memory_bytes=16 * GIB), {}, Resources(cpus=8, memory_bytes=15 * GIB)),
        (
            Resources(cpus=8, memory_bytes=16 * GIB),
            {"cpu_limit": 2},
            Resources(cpus=2, memory_bytes=15 * GIB),
        ),
        (
            Resources(cpus=8, memory_bytes=16 * GIB),
            {"memory_limit_bytes": 4 * GIB},
            Resources(cpus=8, memory_bytes=4 * GIB),
        ),
        # A limit above what there is changes nothing.
        (
            Resources(cpus=2, memory_bytes=4 * GIB),
            {"cpu_limit": 64, "memory_limit_bytes": 64 * GIB},
            Resources(cpus=2, memory_bytes=3 * GIB),
        ),
        # On a tiny host a quarter is left, whatever the reserve.
        (Resources(cpus=1, memory_bytes=GIB), {}, Resources(cpus=1, memory_bytes=GIB // 4)),
    ],
)
def test_a_container_may_have_the_host_less_the_reserve_within_the_limits(
    host: Resources, limits: dict[str, int], expected: Resources
) -> None:
    assert usable(host, **limits) == expected


@settings(deadline=None)
@given(host=resources, cpu_limit=st.just(0.0) | cores, memory_limit=st.just(0) | byte_counts)
def test_what_is_usable_exceeds_neither_the_host_nor_a_limit(
    host: Resources, cpu_limit: float, memory_limit: int
) -> None:
    available = usable(host, cpu_limit=cpu_limit, memory_limit_bytes=memory_limit)

    assert available.cpus == min(host.cpus, cpu_limit or host.cpus)
    assert available.memory_bytes <= host.memory_bytes
    assert not memory_limit or available.memory_bytes <= memory_limit
    assert usable(host).memory_bytes >= host.memory_bytes - HOST_RESERVE_BYTES


def test_a_machine_that_fits_is_granted_whole() -> None:
    granted = fit(SMALL, Resources(cpus=64, memory_bytes=256 * GIB))

    assert granted == Resources(cpus=4, memory_bytes=15 * GIB)
    assert not is_scaled_down(SMALL, granted)


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (Resources(cpus=2, memory_bytes=64 * GIB), Resources(cpus=2, memory_bytes=15 * GIB)),
        (Resources(cpus=8, memory_bytes=7 * GIB), Resources(cpus=4, memory_bytes=7 * GIB)),
        (Resources(cpus=0.5, memory_bytes=GIB), Resources(cpus=0.5, memory_bytes=GIB)),
    ],
)
def test_a_machine_that_does_not_fit_is_scaled_down_to_what_there_is(
    available: Resources, expected: Resources
) -> None:
    granted = fit(SMALL, available)

    assert granted == expected
    assert is_scaled_down(SMALL, granted)


@settings(deadline=None)
@given(machine=machines, available=resources)
def test_a_grant_exceeds_neither_the_machine_nor_the_host_and_less_is_noticed(
    machine: MachineType, available: Resources
) -> None:
    granted = fit(machine, available)

    assert granted.cpus in (machine.cpus, available.cpus)
    assert granted.cpus <= min(machine.cpus, available.cpus)
    assert granted.memory_bytes == min(machine.memory_bytes, available.memory_bytes)
    whole = granted == Resources(cpus=machine.cpus, memory_bytes=machine.memory_bytes)
    assert is_scaled_down(machine, granted) is not whole
