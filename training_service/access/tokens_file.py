"""The tokens file: which bearer tokens and keys stand for which principal."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from training_api.errors import TrainingError
from training_service.access.account_keys import AccountKey, read_public_key
from training_service.access.decision import Caller
from training_service.access.roles import ROLES

#: Shorter ones can be guessed.
MIN_TOKEN_LENGTH = 16
_SHA256 = re.compile(r"^[0-9a-f]{64}$")


class InvalidTokensFile(TrainingError):
    """The tokens file cannot be used; the message never has a token in it."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    principal: str = Field(pattern=r"^(user|serviceAccount):[^\s:@]+@[^\s@]+$")
    token: SecretStr | None = None
    sha256: str | None = Field(default=None, pattern=_SHA256.pattern)
    public_key: str | None = None
    admin: bool = False
    owns: list[str] = []
    roles: dict[str, list[str]] = {}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.token is not None and self.sha256 is not None:
            raise ValueError("must have either token or sha256, not both")
        if self.token is None and self.sha256 is None and self.public_key is None:
            raise ValueError("must have token, sha256 or public_key")
        if self.public_key is not None:
            if not self.principal.startswith("serviceAccount:"):
                raise ValueError("public_key is for a serviceAccount")
            read_public_key(self.public_key)
        if self.token is not None and len(self.token.get_secret_value()) < MIN_TOKEN_LENGTH:
            raise ValueError(f"token must have at least {MIN_TOKEN_LENGTH} characters")
        if unknown := {role for roles in self.roles.values() for role in roles} - ROLES.keys():
            raise ValueError(f"roles must be of {', '.join(sorted(ROLES))}; got {sorted(unknown)}")
        return self

    @property
    def digest(self) -> str | None:
        return digest_of(self.token.get_secret_value()) if self.token else self.sha256

    def caller(self) -> Caller:
        roles = {(project, role) for project, roles in self.roles.items() for role in roles}
        return Caller(
            principal=self.principal,
            is_admin=self.admin,
            is_listed=True,
            roles=frozenset(roles | {(project, "roles/owner") for project in self.owns}),
        )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    principals: list[_Entry]


@dataclass(frozen=True, slots=True)
class KnownCallers:
    """Whom a tokens file knows: by the digest of a token, and by a key."""

    by_digest: Mapping[str, Caller] = field(default_factory=dict)
    keys: tuple[AccountKey, ...] = ()

    @property
    def has_admin(self) -> bool:
        """Whether anybody may set a first policy."""
        return any(
            caller.is_admin for caller in (*self.by_digest.values(), *(key.caller for key in self.keys))
        )


def digest_of(token: str) -> str:
    """
    Return the SHA-256 of a token, in hex.

    Tokens are kept and compared by it, so that no comparison leaks them.
    """
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens_file(path: Path) -> KnownCallers:
    """
    Return the callers of the file, YAML or JSON.

    ::

        principals:
          - principal: user:ann@example.com
            sha256: <hex digest of her token>   # or `token: <the token>`
            admin: true                         # may do everything, so that policies can be set at all
          - principal: serviceAccount:ci@demo.iam.gserviceaccount.com
            token: <at least 16 characters>
            public_key: |                       # of a key of its own, beside the token or without one
              -----BEGIN PUBLIC KEY-----
            owns: [demo]                        # has roles/owner on these projects
            roles: {other: [roles/ml.viewer]}   # has these roles on those projects

    :raises InvalidTokensFile: it is missing, others may read it, or it breaks this form.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise InvalidTokensFile(
                f"tokens file {str(path)!r} must be its owner's alone (mode 0600), got "
                f"{stat.S_IMODE(mode):04o}; "
                f"chmod 600 {path}"
            )
        found = _File.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except OSError as error:
        raise InvalidTokensFile(
            f"tokens file {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError):
        # Not the parser's own text, nor its cause: both may quote the line, and the token in it.
        raise InvalidTokensFile(f"tokens file {str(path)!r} is not YAML or JSON") from None
    except ValidationError as error:
        raise InvalidTokensFile(f"tokens file {str(path)!r}: {_broken(error)}") from None
    callers: dict[str, Caller] = {}
    keys: list[AccountKey] = []
    of_accounts: dict[str, Caller] = {}
    for entry in found.principals:
        if entry.digest in callers:
            raise InvalidTokensFile(f"tokens file {str(path)!r} has the token of {entry.principal!r} twice")
        if entry.digest:
            callers[entry.digest] = entry.caller()
        if entry.public_key:
            # A token that an account is given for a key says whose it is, not for which key.
            if of_accounts.setdefault(entry.principal, entry.caller()) != entry.caller():
                raise InvalidTokensFile(
                    f"tokens file {str(path)!r} gives the keys of {entry.principal!r} different rights; give all "
                    "of its entries with a public_key the same admin, owns and roles"
                )
            keys.append(AccountKey(entry.caller(), read_public_key(entry.public_key)))
    return KnownCallers(callers, tuple(keys))


def _broken(error: ValidationError) -> str:
    """Return where and how the file breaks its form, without what stands there."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}"
        for problem in error.errors(include_input=False, include_url=False)
    )
