"""Other machines: the engine's swarm, the stack's authority, the gate by which they come."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence

import psutil

from local_stack.errors import LocalStackError, PartFailed
from local_stack.machines.authority import AuthorityFiles, ensure_certificate
from local_stack.machines.invitations import Invitations
from local_stack.machines.join_script import JoinCommand
from local_stack.machines.swarm import Machine, ensure_manager, machines_of
from local_stack.machines.trust import trust_for_registry
from local_stack.parts.engine import connect
from local_stack.parts.part import Listener, StackPart, answer_status
from local_stack.processes.supervisor_config import Program
from local_stack.settings import LOOPBACK, REPOSITORY_ROOT, Part

PROGRAM = "gate"


class Machines(StackPart):
    """
    What ``LOCAL_STACK_ADVERTISE_ADDRESS`` asks for; without it there is nothing to start.

    The swarm is made where there is none, and never left.
    """

    name = Part.MACHINES

    def address(self) -> str:
        """Return where other machines come to."""
        return self.settings.gate_url if self.settings.is_advertised else ""

    def is_healthy(self) -> bool:
        """Tell whether the gate answers, whatever the training service behind it does."""
        if not self.settings.is_advertised:
            return True
        return answer_status(self.settings.gate_url, self.settings.authority_file) is not None

    def prepare(self) -> None:
        """
        Make the certificate, have this machine's engine trust it, and make the engine a manager.

        :raises LocalStackError: the address is not this machine's, or the engine cannot be the manager there.
        """
        address = self.settings.advertise_address
        if address is None:
            return
        own = {each.address for addresses in psutil.net_if_addrs().values() for each in addresses}
        if str(address) not in own:
            raise LocalStackError(
                f"LOCAL_STACK_ADVERTISE_ADDRESS must be an address of this machine, got {address}; "
                "`ip -brief address` lists them"
            )
        files = ensure_certificate(self.settings.machines_dir, address)
        trust_for_registry(files.authority, self.settings.engine_certificates_dir, self.settings.registry)
        client = connect(self.settings.engine_url)
        try:
            if ensure_manager(client, address):
                self.progress.say(f"machines: the engine manages a new swarm at {address}")
        finally:
            client.close()

    def listeners(self) -> Sequence[Listener]:
        """Return the gate's address."""
        if not self.settings.is_advertised:
            return ()
        host, port = str(self.settings.advertise_address), self.settings.gate_port
        return [Listener(host=host, port=port, setting="LOCAL_STACK_GATE_PORT")]

    def program_names(self) -> Sequence[str]:
        """Return the gate; without an address it is no part, so that one of before is stopped."""
        return (PROGRAM,) if self.settings.is_advertised else ()

    def programs(self) -> Sequence[Program]:
        """Return the gate, which reads its certificate when it starts."""
        if not self.settings.is_advertised:
            return ()
        certificate = AuthorityFiles(self.settings.machines_dir).certificate
        return [
            Program(
                name=PROGRAM,
                command=(
                    sys.executable,
                    "-m",
                    "local_stack.machines.gate",
                    f"--host={self.settings.advertise_address}",
                    f"--port={self.settings.gate_port}",
                    f"--training-port={self.settings.training_port}",
                    f"--engine={self.settings.engine_url}",
                    f"--folder={self.settings.machines_dir}",
                ),
                directory=REPOSITORY_ROOT,
                environment={
                    "PYTHONUNBUFFERED": "1",
                    # With a renewed certificate it is started again.
                    "LOCAL_STACK_CERTIFICATE_SHA256": hashlib.sha256(certificate.read_bytes()).hexdigest(),
                },
            )
        ]

    def machines(self) -> list[Machine]:
        """
        Return the machines of the swarm that the engine manages; empty: it manages none.

        :raises LocalStackError: the engine does not answer.
        """
        client = connect(self.settings.engine_url)
        try:
            return machines_of(client)
        finally:
            client.close()

    def join_command(self) -> JoinCommand:
        """
        Return what another machine runs, with a new token.

        :raises LocalStackError: the stack is not up, or only for this machine.
        """
        settings = self.settings
        if settings.advertise_address is None:
            raise LocalStackError(
                "this stack listens on loopback only; set LOCAL_STACK_ADVERTISE_ADDRESS to the address at which other "
                "machines reach this one, and LOCAL_STACK_REQUIRE_AUTH=true, and run `make serve` again"
            )
        gate, training = settings.gate_url, f"http://{LOOPBACK}:{settings.training_port}/health/live"
        for name, url in ((PROGRAM, gate), (Part.TRAINING.value, training)):
            if answer_status(url, settings.authority_file) is None:
                raise PartFailed(name, f"does not answer at {url}; run `make serve` first")
        token = Invitations(settings.machines_dir / "invitations").issue(settings.join_minutes * 60)
        return JoinCommand(
            address=str(settings.advertise_address),
            gate_url=gate,
            registry=settings.registry,
            ports=(settings.gate_port, settings.registry_port, settings.object_store_port),
            authority=settings.authority_file.read_text("ascii"),
            token=token,
            agent_folder=str(settings.agent_folder),
        )
