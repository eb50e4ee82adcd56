"""Who callers are and what they may do: the parts of access, put together."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from container_engines.base import Engine
from training_api.job.dialect import Dialects
from training_service.access.account_keys import AccountKeys
from training_service.access.bucket_access import BucketAccess
from training_service.access.control import AccessControl
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.image_access import AnyImage, CheckedImages, ImageAccess
from training_service.access.registry_tokens import RegistryTokens
from training_service.access.signing_key import SigningKey
from training_service.access.tokens_file import InvalidTokensFile, KnownCallers, read_tokens_file
from training_service.intake.cloud_storage import CloudStorage
from training_service.metadata.app import create_metadata_app
from training_service.metadata.job_callers import JobCallers
from training_service.metadata.server import MetadataServer
from training_service.settings import EngineKind, ServiceSettings
from training_service.store.jobs.job_store import JobStore
from training_service.store.policy_store import PolicyStore
from training_service.store.pull_store import PullStore
from training_service.upkeep.images import RecordedPulls

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """
    The key of the service, and what follows from it.

    :param dialects: whose service agents jobs are.
    """

    settings: ServiceSettings
    dialects: Dialects
    key: SigningKey
    tokens: IdentityTokens
    authenticator: Authenticator

    @classmethod
    def of(cls, settings: ServiceSettings, dialects: Dialects) -> Identities:
        """
        Return those of a service.

        :raises InvalidTokensFile: the tokens file is needed and cannot be used.
        :raises InvalidSigningKey: the signing key cannot be used.
        """
        key = SigningKey.load_or_make(settings.key_folder) if settings.key_folder else SigningKey.generate()
        tokens = IdentityTokens(key)
        return cls(
            settings=settings,
            dialects=dialects,
            key=key,
            tokens=tokens,
            authenticator=_authenticator(settings, tokens),
        )

    def control(self, policies: PolicyStore) -> AccessControl:
        """Return what decides by ``policies``."""
        agents = (each.agent for each in self.dialects.values())
        return AccessControl(
            policies, self.authenticator, agents=agents, is_required=self.settings.require_auth
        )

    def registry_tokens(self, access: AccessControl) -> RegistryTokens:
        """Return what issues the registry's tokens, as ``access`` decides."""
        return RegistryTokens(self.key, access)

    def image_access(self, policies: PolicyStore, engine: Engine, pulls: PullStore) -> ImageAccess:
        """Return what is asked before each pull."""
        registry = self.settings.registry
        tokens = self.registry_tokens(self.control(policies))
        access = CheckedImages(registry, tokens, self.dialects) if registry else AnyImage()
        # The machines of a swarm pull by themselves.
        if self.settings.engine is not EngineKind.DOCKER:
            return access
        return RecordedPulls(access, engine, pulls, records_uses=bool(self.settings.retention.image_bytes))

    def bucket_access(self, policies: PolicyStore, storage: CloudStorage) -> BucketAccess:
        """Return what is asked before ``storage`` is read for a job."""
        may = self.control(policies).may
        return BucketAccess(storage.lists, may, self.settings.project_buckets, self.dialects)

    def job_callers(self, engine: Engine, jobs: JobStore) -> JobCallers:
        """Return who the containers of jobs are."""
        return JobCallers(engine, jobs, self.dialects, self.tokens)

    def metadata_server(self, callers: JobCallers) -> MetadataServer | None:
        """Return the metadata endpoint; ``None``: the service itself has none."""
        # On several machines only its own machine knows a container by its address: the agent there.
        if not self.settings.metadata_host or self.settings.engine is EngineKind.SWARM:
            return None
        app = create_metadata_app(callers.at)
        return MetadataServer(app, self.settings.metadata_host, self.settings.metadata_port)


def _authenticator(settings: ServiceSettings, identities: IdentityTokens) -> Authenticator:
    if settings.require_auth and settings.tokens_file is None:
        raise InvalidTokensFile("--require-auth needs --tokens-file: without one, nobody may do anything")
    callers = read_tokens_file(settings.tokens_file) if settings.tokens_file else KnownCallers()
    if settings.require_auth and not callers.has_admin:
        logger.warning(
            "the tokens file has no administrator: nobody may set a first policy",
            file=str(settings.tokens_file),
        )
    return Authenticator(callers.by_digest, identities, AccountKeys(callers.keys))
