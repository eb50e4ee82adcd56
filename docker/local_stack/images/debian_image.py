"""A base image built from Debian packages, for machines that reach no image registry."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import docker
import docker.errors
import psutil

from local_stack.errors import PartFailed
from local_stack.processes.packages import DEBIAN_KEYRING, PackageInstaller, find_program

SUITE = "bookworm"
REPOSITORY = "container-training/base"
CONTAINER_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
TRUST_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
BUILD_TIMEOUT_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianRecipe:
    """
    What the image contains.

    Its name is a hash of all of this, so that a changed recipe is another image.

    :param authorities: certificate bundle that replaces the image's own; None keeps Debian's.
    """

    packages: tuple[str, ...] = (
        "python3",
        "python3-pip",
        "python3-venv",
        "ca-certificates",
        "python-is-python3",
    )
    # Small, and not needed in a container. EXTERNALLY-MANAGED forbids `pip install` outside a virtual
    # environment, which the public Python images allow.
    removed: tuple[str, ...] = (
        "var/cache/apt/*",
        "var/lib/apt/lists/*",
        "var/log/*",
        "usr/share/doc/*",
        "usr/share/man/*",
        "usr/share/info/*",
        "usr/share/locale/*",
        "usr/lib/python3*/EXTERNALLY-MANAGED",
    )
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "PIP_NO_CACHE_DIR": "1"}
    )
    authorities: bytes | None = None

    def image_name(self) -> str:
        """Return ``REPOSITORY:SUITE-HASH``."""
        parts = [SUITE, *self.packages, *self.removed, repr(sorted(self.environment.items()))]
        digest = hashlib.sha256("\0".join(parts).encode() + b"\0" + (self.authorities or b""))
        return f"{REPOSITORY}:{SUITE}-{digest.hexdigest()[:12]}"

    def changes(self) -> list[str]:
        """Return the Dockerfile instructions that are applied to the imported file system."""
        environment = dict(self.environment)
        if self.authorities is not None:
            environment |= dict.fromkeys(TRUST_VARIABLES, CONTAINER_BUNDLE)
        return [*(f"ENV {name}={value}" for name, value in environment.items()), 'CMD ["python3"]']


def build_debian_image(
    recipe: DebianRecipe,
    client: docker.DockerClient,
    packages: PackageInstaller,
    *,
    build_dir: Path,
    log: Path,
    mirror: str | None,
) -> str:
    """
    Build the image with debootstrap and import it into the engine.

    This needs root, Debian or Ubuntu, and about a minute.

    :param build_dir: a private folder is made below it, and removed afterwards.
    :param mirror: where debootstrap gets packages; None means its default.
    :return: the image's name.
    :raises PackagesMissing: debootstrap cannot be installed here.
    :raises PartFailed: debootstrap or the import failed.
    """
    if find_program("debootstrap") is None or not DEBIAN_KEYRING.exists():
        packages.install(["debootstrap", "debian-archive-keyring"], start_services=False)
    name = recipe.image_name()
    with _root_folder(build_dir) as root:
        with packages.progress.step(f"building the base image {name} with debootstrap (log: {log})"):
            _debootstrap(recipe, root, mirror=mirror, log=log)
        _clean(recipe, root)
        with packages.progress.step(f"importing {name} into the engine"):
            _import(recipe, root, client)
    return name


@contextmanager
def _root_folder(build_dir: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="local-stack-base-", dir=build_dir))
    try:
        root = folder / "root"
        root.mkdir(mode=0o755)
        yield root
    finally:
        # An interrupted debootstrap may leave /proc and /sys mounted in the tree; never delete through those.
        for mount in psutil.disk_partitions(all=True):
            if Path(mount.mountpoint).is_relative_to(folder):
                subprocess.run(["umount", mount.mountpoint], check=True)
        shutil.rmtree(folder)


def _debootstrap(recipe: DebianRecipe, root: Path, *, mirror: str | None, log: Path) -> None:
    command = [
        str(find_program("debootstrap")),
        "--variant=minbase",
        # Without it, unsigned lists are taken where the keyring is missing.
        "--force-check-gpg",
        f"--include={','.join(recipe.packages)}",
        SUITE,
        str(root),
        *([mirror] if mirror else []),
    ]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            subprocess.run(
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=BUILD_TIMEOUT_SECONDS,
            )
        except (subprocess.SubprocessError, OSError) as error:
            tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise PartFailed("debootstrap", "failed", log, tail) from error


def _clean(recipe: DebianRecipe, root: Path) -> None:
    for pattern in recipe.removed:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    if recipe.authorities is not None:
        (root / CONTAINER_BUNDLE.lstrip("/")).write_bytes(recipe.authorities)


def _import(recipe: DebianRecipe, root: Path, client: docker.DockerClient) -> None:
    repository, tag = recipe.image_name().rsplit(":", 1)
    tar = ["tar", "--directory", str(root), "--numeric-owner", "--one-file-system"]
    # The engine mounts its own /dev, and device files in an image help nobody.
    command = [*tar, "--exclude=./dev/*", "--create", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
        try:
            client.api.import_image_from_stream(
                archive.stdout, repository=repository, tag=tag, changes=recipe.changes()
            )
        except docker.errors.APIError as error:
            raise PartFailed("docker import", f"of the base image failed: {error.explanation}") from error
    if archive.returncode != 0:
        client.images.remove(recipe.image_name())
        raise PartFailed("tar", f"of the base image ended with status {archive.returncode}")
