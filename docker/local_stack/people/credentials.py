"""
The stack's principals, developer and Airflow, and what lets clients use their tokens.

Made once, in the state folder, each file for its owner alone; ``~/.docker`` is not touched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local_stack.errors import PartFailed
from local_stack.settings import LOOPBACK, Part, StackSettings

DEVELOPER = "user:developer@example.com"
"""The principal of this machine's user; an owner of the stack's project."""
AIRFLOW_ROLES = ("roles/training.airflow", "roles/aiplatform.user")
"""What Airflow has on the stack's project: what its tasks and its dashboard ask for, by either API."""
REGISTRY_USER = "oauth2accesstoken"
"""User name of a registry login whose password is a token, as in Google's registries."""
KEY_TIMEOUT_SECONDS = 60
_OWNER_ONLY = 0o600


def ensure_credentials(settings: StackSettings, *others: Mapping[str, object]) -> None:
    """
    Make both tokens, the service's tokens file, and Docker's configuration.

    The configuration has the developer's login.

    :param others: more principals for the tokens file.
    """
    for file in (settings.developer_token_file, settings.airflow_token_file):
        if not file.exists():
            write_private(file, secrets.token_urlsafe(32))
    token = developer_token(settings)
    developer = {
        "principal": DEVELOPER,
        "sha256": digest(token),
        # Somebody has to set the first policy of every other project.
        "admin": settings.require_auth,
        "owns": [settings.project],
    }
    airflow = {
        "principal": airflow_principal(settings),
        "sha256": digest(airflow_token(settings)),
        "roles": {settings.project: list(AIRFLOW_ROLES)},
        **_google_key_entry(settings),
    }
    write_private(settings.tokens_file, json.dumps({"principals": [developer, airflow, *others]}, indent=2))
    config = settings.docker_config_dir / "config.json"
    if not config.exists() or _read_auth(config, settings.registry) != _auth(token):
        found = json.loads(config.read_text("utf-8")) if config.exists() else {}
        found.setdefault("auths", {})[settings.registry] = {"auth": _auth(token)}
        write_private(config, json.dumps(found, indent=2))


def developer_token(settings: StackSettings) -> str:
    """Return the developer's token; :func:`ensure_credentials` has made it."""
    return settings.developer_token_file.read_text("ascii").strip()


def airflow_principal(settings: StackSettings) -> str:
    """Return as whom Airflow asks the training service and the registry."""
    return f"serviceAccount:airflow@{settings.project}.iam.gserviceaccount.com"


def airflow_token(settings: StackSettings) -> str:
    """Return Airflow's token; :func:`ensure_credentials` has made it."""
    return settings.airflow_token_file.read_text("ascii").strip()


def developers_header(settings: StackSettings) -> dict[str, str]:
    """Return the header of requests that the developer sends to the training service."""
    return {"Authorization": f"Bearer {developer_token(settings)}"}


def _google_key_entry(settings: StackSettings) -> dict[str, str]:
    """
    Return the public half of the key with which Google's operators are Airflow's account.

    It is made where tokens are wanted. Once made it stays known: an Airflow that has it may run longer than
    the service that wanted tokens.
    """
    if not settings.require_auth and not settings.google_key_file.exists():
        return {}
    principal = airflow_principal(settings).removeprefix("serviceAccount:")
    options = ("--token-uri", f"{settings.training_url}/token", "--output", str(settings.google_key_file))
    shown = settings.google_key_file
    return {"public_key": _ask_service(Part.TRAINING, "account-key", principal, *options, shown=shown)}


def google_key(settings: StackSettings, training_host: str = LOOPBACK) -> str:
    """
    Return the content of the key file of Airflow's account; empty: there is none.

    :func:`ensure_credentials` has made it.

    :param training_host: where its readers find the training service.
    """
    if not settings.require_auth:
        return ""
    content = json.loads(settings.google_key_file.read_text("utf-8"))
    return json.dumps(content | {"token_uri": f"http://{training_host}:{settings.training_port}/token"})


def registry_login(settings: StackSettings) -> dict[str, str]:
    """Return the developer's login for the stack's registry, as docker-py's ``auth_config``."""
    return {"username": REGISTRY_USER, "password": developer_token(settings)}


def stacks_registry_login(settings: StackSettings, image: str) -> dict[str, str]:
    """
    Return the stack's own login for one image, whoever is up, as docker-py's ``auth_config``.

    :param image: its name in the registry, ``HOST/PROJECT/NAME:TAG``.
    :raises PartFailed: the service's program failed.
    """
    repository = image.partition("/")[2].rpartition(":")[0]
    options = (repository, "--key-dir", str(settings.key_dir))
    token = _ask_service(Part.REGISTRY, "registry-token", *options, shown=settings.key_dir)
    return {"registrytoken": token.strip()}


def registry_auth(settings: StackSettings, training_url: str = "") -> dict[str, Any]:
    """
    Return the registry's settings for the training service's tokens; make the key if needed.

    :param training_url: the service as engines reach it; default: that of the settings, the gate where
        engines of other machines ask.
    :raises PartFailed: the service's program failed.
    """
    own_url = settings.gate_url if settings.is_advertised else settings.training_url
    realm = f"{training_url or own_url}/registry/token"
    kept = settings.credentials_dir / "registry-auth.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        if found["token"]["realm"] == realm and Path(found["token"]["rootcertbundle"]).exists():
            return found
    options = ("--realm", realm, "--key-dir", str(settings.key_dir))
    printed = _ask_service(Part.REGISTRY, "registry-auth", *options, shown=kept)
    write_private(kept, printed)
    made: dict[str, Any] = json.loads(printed)
    return made


def _ask_service(part: Part, *arguments: str, shown: Path) -> str:
    """
    Return what a command of the service prints.

    The command runs in its own process, so the stack does not import the service.

    :param shown: the file that it is about.
    :raises PartFailed: the program failed.
    """
    command = [sys.executable, "-m", "training_service", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=KEY_TIMEOUT_SECONDS)
    if done.returncode != 0:
        raise PartFailed(part.value, f"has no key: {arguments[0]}: {done.stderr.strip()}", shown)
    return done.stdout


def digest(token: str) -> str:
    """Return what the tokens file has in the place of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def _auth(token: str) -> str:
    return base64.b64encode(f"{REGISTRY_USER}:{token}".encode()).decode()


def _read_auth(config: Path, registry: str) -> str | None:
    found = json.loads(config.read_text("utf-8")).get("auths", {}).get(registry, {}).get("auth")
    return None if found is None else str(found)


def write_private(path: Path, content: str) -> None:
    """Replace ``path`` by a file for its owner alone, at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    fresh.replace(path)
