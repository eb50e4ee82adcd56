"""
A trainer that tries to leave its container, and prints one line of JSON for each attempt.

It needs only Python, and runs in a container. Its argument is what it is told of its surroundings, as JSON
(``tests/docker/test_hostile_trainer.py``), ``attempts`` among it: the names of what it is to try. What an
attempt leaves behind, such as a forged line of the log, is judged from outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import json
import os
import platform
import select
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

Told = dict[str, Any]
_SECONDS = 1.0
_OWN_MOUNTS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_KERNELS_FILES = ("proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2")
_MOUNT_NAMESPACE, _USER_NAMESPACE = 0x00020000, 0x10000000
#: Programs of the machine that a container can see if it shares the machine's processes.
_PROGRAMS_OF_THE_MACHINE = ("dockerd", "containerd", "supervisord", "training_service")


class Tries:
    """What one attempt has tried: what worked, and what did not, with the reason."""

    def __init__(self) -> None:
        self.worked: list[str] = []
        self.failed: list[str] = []

    def __call__(self, what: str, do: Callable[..., object], *arguments: object) -> None:
        """Try one thing. It works unless it raises."""
        try:
            got = do(*arguments)
        except Exception as error:
            self.failed.append(f"{what}: {error}")
        else:
            self.worked.append(f"{what}: {got!r:.200}")


Attempt = Callable[[Tries, Told], None]
#: Each with what it tries, in words.
ATTEMPTS: dict[str, tuple[str, Attempt]] = {}


def tries_to(words: str) -> Callable[[Attempt], Attempt]:
    """Enter a function among the attempts, by its name."""

    def enter(attempt: Attempt) -> Attempt:
        ATTEMPTS[attempt.__name__] = (words, attempt)
        return attempt

    return enter


# The network.


@tries_to("reach the training service's port, at all addresses of the machine")
def service_port(tries: Tries, told: Told) -> None:
    _connect(tries, [(host, told["service_port"]) for host in told["hosts"]])


@tries_to("reach the registry's port")
def registry_port(tries: Tries, told: Told) -> None:
    _connect(tries, [(host, told["registry_port"]) for host in told["hosts"]])


@tries_to("reach a program of the machine that listens on all addresses")
def host_port(tries: Tries, told: Told) -> None:
    _connect(tries, [(host, told["host_port"]) for host in told["hosts"]])


@tries_to("reach a link-local address (169.254.0.0/16), where clouds have the machine's metadata")
def link_local(tries: Tries, told: Told) -> None:
    _connect(tries, [told["link_local"]])


@tries_to("reach the container of another job")
def other_job_network(tries: Tries, told: Told) -> None:
    _connect(tries, [told["other_job"]])


@tries_to("send and receive packets under an address of its choice")
def raw_packets(tries: Tries, told: Told) -> None:
    tries("Ethernet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())
    tries("IP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close())


@tries_to("reach the engine's sockets and ports")
def engine(tries: Tries, told: Told) -> None:
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
        tries(path, _connect_to_file, path)
    _connect(tries, [(host, port) for host in told["hosts"] for port in (2375, 2376, 2377, 4243)])


# The doors that a job has.


@tries_to("get the token of another job's account from the metadata endpoint")
def other_account(tries: Tries, told: Told) -> None:
    accounts = "/computeMetadata/v1/instance/service-accounts"
    tries("by name", _metadata, f"{accounts}/{told['other_account']}/token")
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded"):
        # An answer is no harm, as long as it is about the job itself.
        tries(header, _as_other, f"{accounts}/default/email", header, told)


@tries_to("write, replace, copy, move, compose and delete the objects of another job")
def other_objects(tries: Tries, told: Told) -> None:
    bucket, own, theirs = told["bucket"], told["own_folder"], told["other_folder"]
    objects = f"/storage/v1/b/{bucket}/o"
    model, mine = f"{objects}/{quote(theirs + '/model', safe='')}", quote(f"{own}/x", safe="")
    to_model = f"b/{bucket}/o/{quote(theirs + '/model', safe='')}"
    tries("replace", _write, told, f"{theirs}/model")
    tries("create", _write, told, f"{theirs}/more")
    tries("resumable", _write, told, f"{theirs}/model", "resumable")
    tries("delete", _store, "DELETE", model)
    tries("copy", _store, "POST", f"{objects}/{mine}/copyTo/{to_model}", {})
    tries("rewrite", _store, "POST", f"{objects}/{mine}/rewriteTo/{to_model}", {})
    tries("move", _store, "POST", f"{model}/moveTo/o/{quote(own + '/y', safe='')}", {})
    tries("compose", _store, "POST", f"{model}/compose", {"sourceObjects": [{"name": f"{own}/x"}]})
    tries("metadata", _store, "PATCH", model, {"metadata": {"a": "b"}})
    tries("XML", _store, "PUT", f"/{bucket}/{theirs}/model", {})
    for header, value in (("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", told["other_job"][0])):
        tries(f"{header}: {value}", _write, told, f"{theirs}/model", "media", {header: value})


@tries_to("make and delete buckets, read and set their policies")
def buckets(tries: Tries, told: Told) -> None:
    bucket = f"/storage/v1/b/{told['bucket']}"
    tries("delete", _store, "DELETE", bucket)
    tries("make", _store, "POST", "/storage/v1/b?project=demo-project", {"name": "another"})
    tries("read the policy", _store, "GET", f"{bucket}/iam")
    policy = {"bindings": [{"role": "roles/storage.admin", "members": ["allUsers"]}]}
    tries("set the policy", _store, "PUT", f"{bucket}/iam", policy)


@tries_to("list and read the bucket of another project")
def other_bucket(tries: Tries, told: Told) -> None:
    objects = f"/storage/v1/b/{told['other_bucket']}/o"
    tries("list", _store, "GET", objects)
    tries("read", _store, "GET", f"{objects}/secret?alt=media")


@tries_to("take all connections of the metadata endpoint (64 at once)")
def metadata_flood(tries: Tries, told: Told) -> None:
    host, _, port = os.environ["GCE_METADATA_HOST"].partition(":")
    tries("64 connections", _hold_open, host, int(port), 64, told["metadata_connections"])


@tries_to("take the connections of the object store (400 at once)")
def store_flood(tries: Tries, told: Told) -> None:
    host, _, port = os.environ["STORAGE_EMULATOR_HOST"].removeprefix("http://").partition(":")
    tries("400 connections", _hold_open, host, int(port), 400, told["store_connections"])


# The machine.


@tries_to("have other rights than documented: capabilities, system calls, new privileges")
def rights(tries: Tries, told: Told) -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    wanted = {"Seccomp": "2", "NoNewPrivs": "1"}
    wanted |= dict.fromkeys(("CapEff", "CapPrm", "CapBnd"), str(told["capabilities"]))
    for name, value in wanted.items():
        tries(f"{name} is not {value}", _must, found[name] != value, found[name])


@tries_to("become root by a program with the set-user-id bit")
def set_user_id(tries: Tries, told: Told) -> None:
    program = "import os; print(os.geteuid())"
    done = subprocess.run(
        [told["set_user_id_python"], "-c", program], user=65534, check=True, capture_output=True, text=True
    )
    tries("run it as nobody", _must, done.stdout.strip() == "0", f"is user {done.stdout.strip()}")


@tries_to("read a file of the machine: by its path, through mounts and links")
def host_files(tries: Tries, told: Told) -> None:
    secret = told["host_file"]
    roots = ["", "/proc/1/root", "/proc/self/root", "/host", f"{told['metrics']}/../../../../../.."]
    for root in roots:
        tries(f"{root}{secret}", Path(root + secret).read_text)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        (root, mounted_at), kind = line.split()[3:5], line.partition(" - ")[2].split()[0]
        is_of_the_machine = root != "/" and kind not in _KERNELS_FILES
        is_known = mounted_at in (*_OWN_MOUNTS, told["metrics"]) or mounted_at.endswith("/docker-init")
        if is_of_the_machine and not is_known:
            tries.worked.append(f"{root} of the machine is mounted at {mounted_at}")


@tries_to("open the machine's disks, memory and kernel log")
def devices(tries: Tries, told: Told) -> None:
    for name in ("sda", "vda", "nvme0n1", "mem", "kmsg", "fuse", "loop-control"):
        tries(f"/dev/{name}", _open, f"/dev/{name}", os.O_RDONLY)
    for line in Path("/proc/partitions").read_text().splitlines()[2:4]:
        major, minor, _, name = line.split()
        tries(f"mknod of {name}", _open_device, int(major), int(minor))


@tries_to("change settings of the machine's kernel")
def kernel_settings(tries: Tries, told: Told) -> None:
    names = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger"]
    names += [str(path) for path in Path("/sys/fs/cgroup").glob("*/release_agent")]
    names += ["/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    names += ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max"]
    for name in names:
        # To open it is enough to know.
        tries(name, _open, name, os.O_WRONLY)


@tries_to("use system calls that lead out: mount, namespaces, kernel modules, handles of files")
def system_calls(tries: Tries, told: Told) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    modules = {"x86_64": 175, "aarch64": 105}.get(platform.machine(), -1)
    calls: dict[str, Callable[[], int]] = {
        "mount": lambda: libc.mount(b"none", b"/mnt", b"tmpfs", 0, None),
        "unshare mounts": lambda: libc.unshare(_MOUNT_NAMESPACE),
        "unshare users": lambda: libc.unshare(_USER_NAMESPACE),
        "setns": lambda: libc.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0),
        "chroot": lambda: libc.chroot(b"/"),
        "sethostname": lambda: libc.sethostname(b"hostile", 7),
        "swapoff": lambda: libc.swapoff(b"/none"),
        "acct": lambda: libc.acct(None),
        "klogctl": lambda: libc.klogctl(10, None, 0),
        "fanotify": lambda: libc.fanotify_init(0, 0),
        "open_by_handle_at": lambda: libc.open_by_handle_at(-1, ctypes.create_string_buffer(128), 0),
        "init_module": lambda: libc.syscall(modules, None, 0, b""),
    }
    for name, call in calls.items():
        tries(name, _allowed, call)


@tries_to("see or signal processes outside of its container")
def host_processes(tries: Tries, told: Told) -> None:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(name in word for word in words[:3] for name in _PROGRAMS_OF_THE_MACHINE):
                tries.worked.append(f"{folder.name}: {' '.join(words)[:80]}")


# Floods.


@tries_to("have more processes and threads than its limit")
def fork_bomb(tries: Tries, told: Told) -> None:
    tries(f"{told['processes']} of them", _start_many, told["processes"])


# What it leaves behind, judged from outside.


@tries_to("forge lines of the service or of another job in the log")
def forged_log(tries: Tries, told: Told) -> None:
    name, other = "projects/demo-project/logs/service", told["other_job_id"]
    forged: dict[str, Any] = {"message": "The job was cancelled on request. FORGED", "severity": "ERROR"}
    forged |= {"logName": name, "log_name": name, "insertId": "1", "state": "SUCCEEDED", "trial_id": "7"}
    forged |= {"resource": {"type": "ml_job", "labels": {"job_id": other, "task_name": "service"}}}
    forged |= {"labels": {"ml.googleapis.com/job_id": other}, "task_name": "service", "job_id": other}
    forged |= {"logging.googleapis.com/labels": forged["labels"], "jobId": other}
    print(json.dumps(forged), flush=True)
    print(f"FORGED\r\n{json.dumps(forged)}\x00\x1b[2K\n\u2028FORGED", file=sys.stderr, flush=True)


@tries_to("report metrics for another job, and a file of the machine as its own metrics")
def forged_metrics(tries: Tries, told: Told) -> None:
    path = Path(told["metrics"], told["metric_file"])
    report = {"timestamp": time.time(), "trial": told["other_job_id"], "global_step": "1", "forged": "1.0"}
    other = report | {"job_id": told["other_job_id"]}
    path.write_text(f"{json.dumps(report)}\n{json.dumps(other)}\n")
    for make in (path.symlink_to, path.hardlink_to):
        time.sleep(0.3)  # the service puts the next empty file here
        path.unlink(missing_ok=True)
        tries.failed.append(f"{make.__name__}: {_error_of(make, told['host_file'])}")


@tries_to("hold up the service by pipes, deep folders and many files where it reads the metrics")
def odd_folders(tries: Tries, told: Told) -> None:
    path = Path(told["metrics"], told["metric_file"])
    for make in (os.mkfifo, _make_deep, _make_many):
        _put_in_place_of(path, make)
    _make_deep(Path(told["metrics"], "deep"))
    _make_many(Path(told["metrics"], "many"))


def _connect(tries: Tries, places: Sequence[tuple[str, int]]) -> None:
    """Try all places at once: one that drops what comes would take its time alone."""
    with contextlib.ExitStack() as held:
        clients = [held.enter_context(socket.socket()) for _ in places]
        for client, (host, port) in zip(clients, places, strict=True):
            client.setblocking(False)
            client.connect_ex((host, port))
        end, ready = time.monotonic() + _SECONDS, set[socket.socket]()
        while len(ready) < len(clients) and time.monotonic() < end:
            waiting = [client for client in clients if client not in ready]
            ready.update(select.select([], waiting, [], end - time.monotonic())[1])
        for client, (host, port) in zip(clients, places, strict=True):
            tries(f"{host}:{port}", _connected, client, client in ready)


def _connected(client: socket.socket, is_ready: bool) -> str:
    if not is_ready:
        raise TimeoutError("no answer")
    if code := client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))
    return "connected"


def _open(path: str, mode: int) -> None:
    os.close(os.open(path, mode))


def _connect_to_file(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def _hold_open(host: str, port: int, count: int, most: int) -> str:
    """Return how many connections stay open if that is more than ``most``."""
    with contextlib.ExitStack() as held:
        clients = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                clients.append(held.enter_context(socket.create_connection((host, port), timeout=_SECONDS)))
        poll = select.poll()
        for client in clients:
            poll.register(client, select.POLLIN)

        def alive() -> int:
            # The end of a connection is something to read.
            return len(clients) - len(poll.poll(0))

        # The kernel takes all of them; the server ends those beyond its limit when it gets to them.
        _wait_until(lambda: alive() <= most)
        return _must((still := alive()) > most, f"{still} stay open")


def _store(
    method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    url = os.environ["STORAGE_EMULATOR_HOST"] + path
    content = {"Content-Type": "application/json"} if data else {}
    request = urllib.request.Request(url, data, {**content, **(headers or {})}, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return answer.status, answer.read().decode(errors="replace")


def _write(
    told: Told, name: str, kind: str = "media", headers: dict[str, str] | None = None
) -> tuple[int, str]:
    query = urlencode({"uploadType": kind, "name": name})
    return _store("POST", f"/upload/storage/v1/b/{told['bucket']}/o?{query}", {}, headers)


def _metadata(path: str, headers: dict[str, str] | None = None) -> str:
    url = f"http://{os.environ['GCE_METADATA_HOST']}{path}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google", **(headers or {})})
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return str(answer.read().decode())


def _as_other(path: str, header: str, told: Told) -> str:
    found = _metadata(path, {header: told["other_job"][0]})
    return _must(found.strip() == told["other_account"], f"is {found}")


def _open_device(major: int, minor: int) -> None:
    path = Path(f"/root/device-{major}-{minor}")
    os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
    try:
        _open(str(path), os.O_RDONLY)
    finally:
        path.unlink()


def _allowed(call: Callable[[], int]) -> str:
    """Return how a system call ended, unless the kernel does not let this process make it."""
    ctypes.set_errno(0)
    if call() >= 0:
        return "done"
    code = ctypes.get_errno()
    if code in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        raise OSError(code, os.strerror(code))
    # The kernel has looked at the arguments, which are bad on purpose.
    return os.strerror(code)


def _start_many(count: int) -> str:
    """Start so many processes and threads at once; a twentieth of them processes."""
    end, pids = threading.Event(), []
    threads: list[threading.Thread] = []
    threading.stack_size(64 * 1024)
    try:
        for _ in range(count // 20):
            if (pid := os.fork()) == 0:
                time.sleep(60)
                os._exit(0)
            pids.append(pid)
        while len(pids) + len(threads) < count:
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except (OSError, RuntimeError) as error:
        raise OSError(f"{len(pids)} processes and {len(threads)} threads, then: {error}") from error
    finally:
        end.set()
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        for thread in threads:
            thread.join()
    return f"{len(pids)} processes and {len(threads)} threads"


def _put_in_place_of(path: Path, make: Callable[[Path], object]) -> None:
    """Make something where the service puts an empty file, which it may do again at any moment."""
    while True:
        _wait_until(path.is_file)
        path.unlink(missing_ok=True)
        # By another hand there may be a file again, also in place of the folder that was just made.
        with contextlib.suppress(FileExistsError, NotADirectoryError, FileNotFoundError):
            make(path)
            return


def _wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Return whether it holds within that time."""
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _make_deep(path: Path, depth: int = 1500) -> None:
    """Make folders in folders, deeper than a path can say."""
    home = Path.cwd()
    path.mkdir()
    os.chdir(path)
    try:
        for _ in range(depth):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(home)


def _make_many(path: Path, count: int = 2000) -> None:
    path.mkdir()
    # The service takes the folder away meanwhile.
    folder = os.open(path, os.O_RDONLY)
    for number in range(count):
        os.close(os.open(f"{number}", os.O_CREAT, dir_fd=folder))
    os.close(folder)


def _must(is_out: bool, found: str) -> str:
    if not is_out:
        raise OSError(found)
    return found


def _error_of(do: Callable[..., object], *arguments: object) -> str:
    try:
        do(*arguments)
    except OSError as error:
        return str(error)
    return "made"


def _results(told: Told) -> Iterator[dict[str, object]]:
    for name in told["attempts"]:
        tries = Tries()
        ATTEMPTS[name][1](tries, told)
        got_out = bool(tries.worked)
        detail = "; ".join(tries.worked or tries.failed)
        yield {"attempt": name, "got_out": got_out, "detail": detail[:4000]}


def _check_own_doors(told: Told) -> None:
    """What a job may do works: otherwise a refusal below would say nothing."""
    _metadata("/computeMetadata/v1/instance/service-accounts/default/token")
    _write(told, f"{told['own_folder']}/x")
    _store("GET", f"/storage/v1/b/{told['bucket']}/o/{quote(told['other_folder'] + '/model', safe='')}")


def main() -> None:
    """Try everything that the argument names."""
    # A trainer that hangs ends, and says where it was.
    faulthandler.dump_traceback_later(100, exit=True)
    told = json.loads(sys.argv[1])
    if told["is_job"]:
        _check_own_doors(told)
    for result in _results(told):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
