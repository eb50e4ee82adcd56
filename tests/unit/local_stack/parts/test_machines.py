"""Other machines as a part of the stack: nothing without an address, all with one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack.errors import LocalStackError, PartFailed
from local_stack.parts import machines as module
from local_stack.parts.machines import Machines
from tests.support.fakes.stack_workshop import FakeEngine, make_workshop, said


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of this machine, whose engine manages no swarm yet."""
    managed: list[str] = []

    def ensure_manager(client: FakeEngine, address: object) -> bool:
        managed.append(str(address))
        return len(managed) == 1

    monkeypatch.setattr(module, "connect", lambda url, **_: FakeEngine())
    monkeypatch.setattr(module, "ensure_manager", ensure_manager)
    own = SimpleNamespace(address="10.0.0.5")
    monkeypatch.setattr(module.psutil, "net_if_addrs", lambda: {"eth0": [own]})
    return "10.0.0.5"


def make_part(folder: Path, **settings: Any) -> Machines:
    told = {"require_auth": True, "engine_certificates_dir": folder / "certs.d"} | settings
    return Machines(make_workshop(folder, **told))


def test_without_an_address_nothing_is_made_and_nothing_listens(tmp_path: Path) -> None:
    part = make_part(tmp_path)

    part.prepare()

    assert part.is_healthy()
    assert (part.listeners(), part.programs(), part.address()) == ((), (), "")
    # A stack stops programs that are no part: the gate goes when the address does.
    assert part.program_names() == ()
    assert list(tmp_path.iterdir()) == []


def test_with_an_address_the_engine_manages_a_swarm_and_trusts_the_registry(
    tmp_path: Path, address: str
) -> None:
    part = make_part(tmp_path, advertise_address=address, gate_port=8999)

    part.prepare()
    (before,) = part.programs()
    part.prepare()
    (after,) = part.programs()

    assert before == after
    assert {f"--host={address}", "--port=8999"} <= set(before.command)
    assert [(each.host, each.port, each.setting) for each in part.listeners()] == [
        (address, 8999, "LOCAL_STACK_GATE_PORT")
    ]
    trusted = tmp_path / "certs.d" / f"{address}:5000" / "ca.crt"
    assert trusted.read_text() == part.settings.authority_file.read_text()
    assert said(part.progress) == [f"machines: the engine manages a new swarm at {address}"]


def test_an_address_of_another_machine_is_refused_before_anything_is_made(
    tmp_path: Path, address: str
) -> None:
    part = make_part(tmp_path, advertise_address="10.0.0.6")

    with pytest.raises(LocalStackError, match=r"must be an address of this machine, got 10\.0\.0\.6"):
        part.prepare()

    assert list(tmp_path.iterdir()) == []


def test_a_stack_on_loopback_has_no_join_command(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match="set LOCAL_STACK_ADVERTISE_ADDRESS"):
        make_part(tmp_path).join_command()


def test_a_stack_that_is_down_has_none_either(tmp_path: Path, address: str) -> None:
    part = make_part(tmp_path, advertise_address=address)
    part.prepare()

    with pytest.raises(PartFailed, match="run `make serve` first"):
        part.join_command()

    assert not (part.settings.machines_dir / "invitations").exists()


def test_each_join_command_has_a_token_of_its_own(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = make_part(tmp_path, advertise_address=address)
    part.prepare()
    monkeypatch.setattr(module, "answer_status", lambda url, authority: 401)

    first, second = part.join_command(), part.join_command()

    assert first.token != second.token
    assert (first.address, first.registry, first.ports) == (address, f"{address}:5000", (8474, 5000, 9023))
    assert first.agent_folder == "/var/lib/container-training/agents"
    assert len(list((part.settings.machines_dir / "invitations" / "open").iterdir())) == 2
