"""
What the metadata endpoint shows a job, by the Compute Engine protocol. Pure.

Source: cloud.google.com/compute/docs/metadata (querying-metadata, predefined-metadata-keys), and what
google-auth and gcloud ask for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

#: What tokens are good for is decided by the policies; the scope of all is the one that service agents have.
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
#: Values that are made anew for each question; a listing names them, an aggregate leaves them out.
LIVE = ("identity", "token")
#: The region of a job that names none, as in the guide.
DEFAULT_REGION = "us-central1"

Tree = Mapping[str, "Tree | Value"]
Value = str | int | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdentity:
    """
    Who a container is.

    :param email: the service account as which its program asks for things.
    :param number: of the project.
    """

    project: str
    number: int
    email: str
    job_id: str
    job_uid: str
    region: str = DEFAULT_REGION

    @property
    def principal(self) -> str:
        """The name of the account in IAM policies."""
        return f"serviceAccount:{self.email}"


def metadata_tree(identity: JobIdentity) -> Tree:
    """Return everything below ``/computeMetadata/v1/`` but the tokens."""
    account: Tree = {"aliases": ("default",), "email": identity.email, "scopes": SCOPES}
    project = f"projects/{identity.number}"
    return {
        "instance": {
            "attributes": {},
            "id": int(identity.job_uid, 16),
            "name": identity.job_id,
            "region": f"{project}/regions/{identity.region}",
            "service-accounts": {"default": account, identity.email: account},
            "zone": f"{project}/zones/{identity.region}-a",
        },
        "project": {
            "attributes": {},
            "numeric-project-id": identity.number,
            "project-id": identity.project,
        },
        "universe": {"universe-domain": "googleapis.com"},
    }


def find(tree: Tree, path: str) -> Tree | Value | None:
    """Return what is at ``path`` (no slash at its ends); ``None``: nothing."""
    found: Tree | Value = tree
    for part in path.split("/") if path else []:
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def as_text(found: Tree | Value, *, is_account: bool = False) -> str:
    """
    Return a value as it is, or several, one per line.

    For a folder the names in it, folders with a slash.

    :param is_account: a folder of a service account has tokens, too.
    """
    if isinstance(found, Mapping):
        names = [f"{name}/" if isinstance(value, Mapping) else name for name, value in found.items()]
        return "".join(f"{name}\n" for name in sorted([*names, *(LIVE if is_account else ())]))
    if isinstance(found, tuple):
        return "".join(f"{item}\n" for item in found)
    return str(found)


def as_json(found: Tree | Value) -> str:
    """
    Return a value, or a folder with all of its contents.

    Keys are in camelCase, as in the original.
    """
    return json.dumps(_camel(found), separators=(",", ":"))


def _camel(found: Tree | Value) -> object:
    if isinstance(found, Mapping):
        return {_camel_key(name): _camel(value) for name, value in found.items()}
    return list(found) if isinstance(found, tuple) else found


def _camel_key(name: str) -> str:
    if "@" in name:  # an account's address
        return name
    first, *rest = name.split("-")
    return first + "".join(part.capitalize() for part in rest)
