"""Who listens on a port, so that a taken port can be named in the error."""

from __future__ import annotations

import socket

import psutil

from local_stack.errors import PortTaken

ALL_INTERFACES = ("0.0.0.0", "::")  # noqa: S104  # compared with, never bound to


def free_port(host: str = "127.0.0.1") -> int:
    """
    Return a TCP port of ``host`` that is free now.

    Another process may take it before the caller does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        return port


def is_free(host: str, port: int) -> bool:
    """Tell whether a program could listen on ``host:port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # As servers do: connections that are merely closing down (TIME_WAIT) do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
        return True


def listener_on(host: str, port: int) -> psutil.Process | None:
    """
    Return the process that listens on ``host:port``.

    ``None`` if there is none or the system does not tell.
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.pid is None:
            continue
        if connection.laddr.port == port and connection.laddr.ip in {host, *ALL_INTERFACES}:
            try:
                return psutil.Process(connection.pid)
            except psutil.NoSuchProcess:
                return None
    return None


def require_free(host: str, port: int, part: str, setting: str) -> None:
    """
    Return if ``part`` can listen on ``host:port``.

    :param setting: environment variable with which another port can be chosen.
    :raises PortTaken: somebody listens there; the message names the process if the system tells.
    """
    if is_free(host, port):
        return
    owner = "another program"
    process = listener_on(host, port)
    if process is not None:
        try:
            owner = f"process {process.pid} ({process.name()!r})"
        except psutil.Error:
            owner = f"process {process.pid}"
    raise PortTaken(
        f"{part} must listen on {host}:{port}, but {owner} does; stop that, or set {setting} to a free port"
    )
