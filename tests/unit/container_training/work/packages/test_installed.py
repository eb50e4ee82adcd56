"""Reading package databases."""

from __future__ import annotations

import pytest

from container_training.work.packages.installed import (
    PackageKind,
    database_kind,
    is_unread_database,
    os_release,
    packages_of,
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("var/lib/dpkg/status", PackageKind.DEB),
        ("var/lib/dpkg/status-old", None),
        ("var/lib/dpkg/status.d/base-files", PackageKind.DEB),
        ("var/lib/dpkg/status.d/base-files.md5sums", None),
        ("lib/apk/db/installed", PackageKind.APK),
        ("usr/lib/python3/dist-packages/pip-23.0.1.dist-info/METADATA", PackageKind.PYTHON),
        ("opt/venv/lib/python3.11/site-packages/a.egg-info/PKG-INFO", PackageKind.PYTHON),
        ("opt/conda/conda-meta/numpy-2.0-py311.json", PackageKind.CONDA),
        ("app/METADATA", None),
    ],
)
def test_databases_are_known_by_their_paths(path: str, kind: PackageKind | None) -> None:
    assert database_kind(path) == kind


@pytest.mark.parametrize(
    "path", ["var/lib/rpm/Packages", "var/lib/rpm/Packages.db", "usr/lib/sysimage/rpm/rpmdb.sqlite"]
)
def test_rpms_databases_are_known_as_unread(path: str) -> None:
    assert is_unread_database(path)
    assert database_kind(path) is None


def found(kind: PackageKind, text: str) -> list[tuple[str, str, str | None, str | None]]:
    packages = packages_of(kind, text, "p")
    return [(package.name, package.version, package.architecture, package.license) for package in packages]


def test_debian_lists_what_is_installed_and_not_what_was_removed() -> None:
    text = (
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u7\nDescription: C\n Version: 0\n\n"
        "Package: old\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: tzdata\nVersion: 2024a-0+deb12u1\nArchitecture: all\n"
    )

    assert found(PackageKind.DEB, text) == [
        ("libc6", "2.36-9+deb12u7", "amd64", None),
        ("tzdata", "2024a-0+deb12u1", "all", None),
    ]


def test_alpine_lists_with_licenses() -> None:
    text = "C:Q1abc=\nP:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\nF:lib\n\nP:busybox\nV:1.36.1-r29\nA:x86_64\nL:GPL-2.0-only\n"

    assert found(PackageKind.APK, text) == [
        ("musl", "1.2.5-r0", "x86_64", "MIT"),
        ("busybox", "1.36.1-r29", "x86_64", "GPL-2.0-only"),
    ]


@pytest.mark.parametrize(
    ("headers", "license_"),
    [
        ("License-Expression: BSD-3-Clause\n", "BSD-3-Clause"),
        ("License: MIT\nClassifier: License :: OSI Approved :: Apache Software License\n", "MIT"),
        (
            "License: Copyright (c) all\n        of us\nClassifier: License :: OSI Approved :: MIT License\n",
            "MIT License",
        ),
        ("License: UNKNOWN\n", None),
        ("", None),
    ],
)
def test_python_says_its_license_in_one_of_three_ways(headers: str, license_: str | None) -> None:
    text = f"Metadata-Version: 2.1\nName: scikit-learn\nVersion: 1.9.0\n{headers}\nName: not a header\n"

    assert found(PackageKind.PYTHON, text) == [("scikit-learn", "1.9.0", None, license_)]


def test_conda_lists_a_package_in_a_file_and_others_are_left_out() -> None:
    text = '{"name": "numpy", "version": "2.0.0", "subdir": "linux-64", "license": "BSD-3-Clause"}'

    assert found(PackageKind.CONDA, text) == [("numpy", "2.0.0", "linux-64", "BSD-3-Clause")]
    assert found(PackageKind.CONDA, "history") == found(PackageKind.CONDA, "[]") == []


def test_a_package_without_name_or_version_is_left_out() -> None:
    assert found(PackageKind.PYTHON, "Metadata-Version: 2.1\nName: x\n") == []


def test_os_release_is_read_without_quotes() -> None:
    assert os_release('ID=debian\nVERSION_ID="12"\n# x\n')["VERSION_ID"] == "12"
