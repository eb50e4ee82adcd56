"""What an image's package databases say is installed in it. Pure: text in, packages out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from enum import StrEnum
from fnmatch import fnmatchcase


class PackageKind(StrEnum):
    """Who installed a package; the value is the type of its package URL."""

    DEB = "deb"
    APK = "apk"
    PYTHON = "pypi"
    CONDA = "conda"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Package:
    """
    One installed package.

    :param architecture: as its database calls it; ``None``: it has none.
    :param license: an SPDX expression or a name, as the package itself says; ``None``: its database does not.
    :param path: of the database, without a leading slash.
    """

    kind: PackageKind
    name: str
    version: str
    architecture: str | None = None
    license: str | None = None
    path: str


#: Where the databases are. Source: dpkg(1) and distroless' README ("status.d"); apk-tools, ``apk_db``;
#: packaging.python.org, "Recording installed projects"; conda's documentation, "conda-meta".
_DATABASES: tuple[tuple[str, PackageKind], ...] = (
    ("var/lib/dpkg/status", PackageKind.DEB),
    ("var/lib/dpkg/status.d/*", PackageKind.DEB),
    ("lib/apk/db/installed", PackageKind.APK),
    ("usr/lib/apk/db/installed", PackageKind.APK),
    ("*.dist-info/METADATA", PackageKind.PYTHON),
    ("*.egg-info/PKG-INFO", PackageKind.PYTHON),
    ("*.egg-info", PackageKind.PYTHON),
    ("*conda-meta/*.json", PackageKind.CONDA),
)
#: Binary databases, which nothing here reads.
_UNREAD = (
    "var/lib/rpm/Packages*",
    "var/lib/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/Packages*",
)
OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
_LICENSE_CLASSIFIER = "License :: "
_MAX_LICENSE_LENGTH = 100


def database_kind(path: str) -> PackageKind | None:
    """Return whose database the file at ``path`` is, if any's."""
    if path.endswith(".md5sums"):  # beside those of status.d
        return None
    return next((kind for pattern, kind in _DATABASES if fnmatchcase(path, pattern)), None)


def is_unread_database(path: str) -> bool:
    """Whether ``path`` is a database of packages that cannot be read here (RPM's)."""
    return any(fnmatchcase(path, pattern) for pattern in _UNREAD)


def packages_of(kind: PackageKind, text: str, path: str) -> Iterator[Package]:
    """Yield the packages that a database lists; entries without a name or version are left out."""
    readers = {
        PackageKind.DEB: _debian,
        PackageKind.APK: _alpine,
        PackageKind.PYTHON: _python,
        PackageKind.CONDA: _conda,
    }
    for name, version, architecture, license_ in readers[kind](text):
        if name and version:
            yield Package(
                kind=kind,
                name=name,
                version=version,
                architecture=architecture or None,
                license=license_ or None,
                path=path,
            )


def os_release(text: str) -> dict[str, str]:
    """Return the fields of an os-release file. Source: freedesktop.org, os-release(5)."""
    fields = re.findall(r"^([A-Z_0-9]+)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in fields}


_Entry = tuple[str, str, str, str]


def _debian(text: str) -> Iterator[_Entry]:
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): *(.*)$", stanza, re.MULTILINE))
        # What was removed but not purged is listed too; distroless has no such field.
        if fields.get("Status", "install ok installed").endswith(" installed"):
            yield fields.get("Package", ""), fields.get("Version", ""), fields.get("Architecture", ""), ""


def _alpine(text: str) -> Iterator[_Entry]:
    for stanza in text.split("\n\n"):
        fields = dict(line.split(":", 1) for line in stanza.splitlines() if line[1:2] == ":")
        yield fields.get("P", ""), fields.get("V", ""), fields.get("A", ""), fields.get("L", "")


def _python(text: str) -> Iterator[_Entry]:
    headers = HeaderParser().parsestr(text)
    license_ = headers.get("License-Expression") or headers.get("License") or ""
    if "\n" in license_ or len(license_) > _MAX_LICENSE_LENGTH or license_ in ("", "UNKNOWN"):
        # Some put the whole text there.
        classifiers = [str(value) for value in headers.get_all("Classifier", [])]
        names = [
            value.rpartition(" :: ")[2] for value in classifiers if value.startswith(_LICENSE_CLASSIFIER)
        ]
        license_ = names[0] if len(names) == 1 else ""
    yield (
        str(headers.get("Name", "")).strip(),
        str(headers.get("Version", "")).strip(),
        "",
        str(license_).strip(),
    )


def _conda(text: str) -> Iterator[_Entry]:
    try:
        record = json.loads(text)
    except ValueError:
        return
    if isinstance(record, Mapping):
        yield tuple(str(record.get(key) or "") for key in ("name", "version", "subdir", "license"))  # type: ignore[misc]
