"""Where jobs of Vertex AI are: hosts, regions and collections. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: Of the API's paths: jobs, and searches.
CUSTOM_JOBS = "customJobs"
TUNING_JOBS = "hyperparameterTuningJobs"
#: The names of API hosts of Google.
_GOOGLE = "googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexAddress:
    """
    Where jobs of a project are.

    :param regions: where jobs may be; new ones are made in the first.
    :param endpoint: URL of the service for all regions; empty: Google's of each region.
    :param logging_endpoint: URL of Cloud Logging; empty: Google's, or that of ``endpoint``.
    :param resource_manager_endpoint: URL of the Resource Manager, which knows the project's number; empty:
        Google's, or that of ``endpoint``.
    :param project_number: empty: the Resource Manager is asked.
    """

    project: str
    regions: tuple[str, ...]
    endpoint: str = ""
    logging_endpoint: str = ""
    resource_manager_endpoint: str = ""
    project_number: str = ""

    def of_region(self, region: str) -> str:
        """Return the URL of the service in ``region``, without a ``/`` at its end."""
        return self.endpoint.rstrip("/") or f"https://{region}-aiplatform.{_GOOGLE}"

    @property
    def origins(self) -> tuple[str, ...]:
        """Scheme, host and port of all that is asked, the service of new jobs first; each once."""
        urls = [
            *map(self.of_region, self.regions),
            self.of_api("logging", self.logging_endpoint),
            self.of_api("cloudresourcemanager", self.resource_manager_endpoint),
        ]
        return tuple(dict.fromkeys(map(origin, urls)))

    def of_api(self, name: str, own: str) -> str:
        """Return the URL of another API of Google. :param own: its URL, if one is configured."""
        if own or not self.endpoint:
            return own.rstrip("/") or f"https://{name}.{_GOOGLE}"
        return origin(self.endpoint)


def origin(url: str) -> str:
    """Return scheme, host and port of ``url``."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
