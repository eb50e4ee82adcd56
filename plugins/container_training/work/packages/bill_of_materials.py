"""
A Software Bill of Materials of an image, as CycloneDX JSON.

Import it on use: CycloneDX' library takes most of a second.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from itertools import groupby

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from container_training.work.packages.installed import Package, PackageKind
from container_training.work.packages.of_image import ImagePackages
from training_api.job.image_ref import ImageRef

MEDIA_TYPE = "application/vnd.cyclonedx+json"
_DISTRIBUTION = "airflow-container-training"
_PROPERTY = "container-training"


def bill_of_materials(
    ref: ImageRef, digest: str, labels: Mapping[str, str], contents: ImagePackages, now: datetime
) -> bytes:
    """
    Return the bill of the image ``ref``, CycloneDX 1.6.

    Pure but for the version of this distribution. The serial number follows from the image.

    :param digest: ``sha256:...`` of the image.
    :param labels: of the image; those about its origin are kept.
    :param contents: its packages, sorted.

    Source: cyclonedx.org/docs/1.6; github.com/package-url/purl-spec, PURL-TYPES.
    """
    purl = PackageURL(
        type="oci",
        name=ref.repository.rpartition("/")[2],
        version=digest,
        qualifiers={"repository_url": ref.name},
    )
    image = Component(
        type=ComponentType.CONTAINER,
        name=ref.name,
        version=digest,
        purl=purl,
        bom_ref=str(purl),
        properties=[
            *(
                Property(name=name, value=value)
                for name, value in sorted(labels.items())
                if _is_of_origin(name)
            ),
            *(Property(name=f"{_PROPERTY}:not-read", value=path) for path in contents.unread),
        ],
    )
    components = _components(contents)
    tool = Component(type=ComponentType.APPLICATION, name=_DISTRIBUTION, version=version(_DISTRIBUTION))
    bom = Bom(
        components=components,
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(purl)),
        metadata=BomMetaData(component=image, timestamp=now, tools=ToolRepository(components=[tool])),
    )
    bom.register_dependency(image, components)
    return JsonV1Dot6(bom).output_as_string(indent=1).encode()


def _is_of_origin(label: str) -> bool:
    return label.startswith("org.opencontainers.image.") or label == "container-training.context"


def _components(contents: ImagePackages) -> list[Component]:
    system = contents.os_release
    components = []
    if system.get("ID"):
        components.append(
            Component(
                type=ComponentType.OPERATING_SYSTEM,
                name=system["ID"],
                version=system.get("VERSION_ID"),
                description=system.get("PRETTY_NAME"),
                bom_ref=f"os:{system['ID']}",
            )
        )
    by_url = sorted(contents.packages, key=lambda package: str(_purl(package, system)))
    for url, same in groupby(by_url, key=lambda package: str(_purl(package, system))):
        first, *others = same  # one package in two places is one component
        components.append(_component(url, first, [first.path, *(other.path for other in others)]))
    return components


def _component(url: str, package: Package, paths: list[str]) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        purl=PackageURL.from_string(url),
        bom_ref=url,
        licenses=[DisjunctiveLicense(name=package.license)] if package.license else (),
        properties=[Property(name=f"{_PROPERTY}:found-in", value=path) for path in sorted(set(paths))],
    )


def _purl(package: Package, system: Mapping[str, str]) -> PackageURL:
    distribution = system.get("ID") or {PackageKind.DEB: "debian", PackageKind.APK: "alpine"}.get(
        package.kind, ""
    )
    if package.kind is PackageKind.PYTHON:
        return PackageURL(
            type="pypi", name=re.sub(r"[-_.]+", "-", package.name).lower(), version=package.version
        )
    if package.kind is PackageKind.CONDA:
        qualifiers = {"subdir": package.architecture} if package.architecture else {}
        return PackageURL(type="conda", name=package.name, version=package.version, qualifiers=qualifiers)
    release = f"{distribution}-{system['VERSION_ID']}" if system.get("VERSION_ID") else distribution
    return PackageURL(
        type=package.kind.value,
        namespace=distribution,
        name=package.name,
        version=package.version,
        qualifiers={"distro": release} | ({"arch": package.architecture} if package.architecture else {}),
    )
