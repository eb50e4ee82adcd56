"""Who trusts the stack's authority on this machine: its engine, for the registry."""

from __future__ import annotations

from pathlib import Path

from local_stack.errors import LocalStackError

#: Public, and read by an engine of another user.
_MODE = 0o644


def trust_for_registry(authority: Path, folder: Path, registry: str) -> bool:
    """
    Have the engine of this machine trust the registry; return whether anything changed.

    :param authority: certificate of the authority, PEM.
    :param folder: where the engine looks at each request, usually ``/etc/docker/certs.d``. Source:
        docs.docker.com/engine/security/certificates.
    :param registry: its ``HOST:PORT``.
    :raises LocalStackError: the file cannot be written.
    """
    path = folder / registry / "ca.crt"
    content = authority.read_text("ascii")
    try:
        if path.exists() and path.read_text("ascii") == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(".ca.crt.new")
        fresh.write_text(content, "ascii")
        fresh.chmod(_MODE)
        fresh.replace(path)
    except OSError as error:
        raise LocalStackError(
            f"this machine's engine must trust the registry {registry}, and {path} cannot be written: "
            f"{error.strerror}; as root, run: install -D -m 644 {authority} {path}"
        ) from error
    return True
