"""What every container of a trainer is denied, and told, in a job and in a local test alike."""

from __future__ import annotations

#: Of what Docker gives by default, what no trainer needs; the rest stays, as images install and drop users with it.
DROPPED_CAPABILITIES = ("AUDIT_WRITE", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SYS_CHROOT")
#: A set-user-id program gains nothing.
SECURITY_OPTIONS = ("no-new-privileges:true",)
#: Processes and threads of one container; TensorFlow alone starts hundreds.
PIDS_LIMIT = 4096
#: The name of a replica that has not started yet must be known to be unknown soon, not after the usual ten seconds.
DNS_OPTIONS = ("timeout:1", "attempts:1")
