"""Which requests are answered at all, by their headers."""

from __future__ import annotations

import pytest

from tests.unit.object_store.conftest import BUCKET, MakeSite, Site


def status(site: Site, *headers: tuple[str, str]) -> int:
    return site.ask("GET", BUCKET, headers=list(headers)).status_code


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9023",
        "127.0.0.1",
        "10.1.2.3:80",
        "[::1]:9023",
        "[fe80::1]",
        "host.docker.internal",
    ],
)
def test_addresses_and_own_names_are_answered(host: str, make_site: MakeSite) -> None:
    site = make_site(hosts=["Host.Docker.Internal"])
    site.store.create_bucket("demo", {})

    assert status(site, ("host", host)) == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:9023", "127.0.0.1.nip.io", "[ab]"])
def test_names_that_somebody_else_may_own_are_refused(host: str, site: Site) -> None:
    assert status(site, ("host", host)) == 403


@pytest.mark.parametrize("host", ["", ":80", "a b:c", "localhost:x", "localhost:123456", "user@[::1", "::1"])
def test_a_host_that_is_none_is_refused(host: str, site: Site) -> None:
    assert status(site, ("host", host)) in (400, 403)


def test_two_hosts_are_refused(site: Site) -> None:
    assert status(site, ("host", "localhost"), ("host", "evil.example")) == 400


@pytest.mark.parametrize(
    ("header", "value", "answered"),
    [
        ("origin", "http://evil.example", False),
        ("origin", "null", False),
        ("sec-fetch-site", "cross-site", False),
        ("sec-fetch-site", "same-site", False),
        ("sec-fetch-site", "none", True),
        ("sec-fetch-site", "same-origin", True),
    ],
)
def test_web_pages_are_refused(header: str, value: str, answered: bool, site: Site) -> None:
    assert status(site, (header, value)) == (200 if answered else 403)
    assert site.ask("GET", "/health", headers={header: value}).status_code == (200 if answered else 403)
