"""Limits and settings of every trainer's container, in jobs and in local tests."""

from __future__ import annotations

#: Docker's default capabilities that no trainer needs. The others stay: images use them to install packages
#: and to switch users.
DROPPED_CAPABILITIES = ("AUDIT_WRITE", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SYS_CHROOT")
#: A set-user-id program gains nothing.
SECURITY_OPTIONS = ("no-new-privileges:true",)
PIDS_LIMIT = 4096
#: The lookup of a replica that has not started yet must fail soon, not after the usual ten seconds.
DNS_OPTIONS = ("timeout:1", "attempts:1")
#: How containers name the engine's machine; ``host-gateway`` is the engine's word for its address.
MACHINE_NAME = "host.docker.internal"
#: Options of a network: the machine's interface to it, and whether the containers in it reach each other.
BRIDGE_NAME, IS_OPEN_INSIDE = "com.docker.network.bridge.name", "com.docker.network.bridge.enable_icc"
