"""What the rules of a packet filter close, and what is an endpoint."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from container_engines.egress import (
    Egress,
    EgressMode,
    Endpoint,
    bridge_of,
    mark_of,
    ruleset,
    shared_bridge_of,
    table_of,
)

MARK = mark_of("service")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("mlflow.example.com:5000", "mlflow.example.com", 5000),
        ("host.docker.internal:1", "host.docker.internal", 1),
        ("10.1.0.0/16:443", "10.1.0.0/16", 443),
        ("[fd00::1]:65535", "fd00::1", 65535),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    endpoint = Endpoint.parse(text)

    assert (endpoint.host, endpoint.port) == (host, port)
    assert str(endpoint) == text
    assert endpoint.is_machine is (host == "host.docker.internal")
    assert (endpoint.network is None) is host.endswith((".com", ".internal"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:+1",
        ":80",
        "a b:80",
        "http://host:80",
        "10.1.0.1/16:443",  # bits of a host: a network was not meant
        "host;drop:80",
        "x } accept:80",
    ],
)
def test_what_is_no_endpoint_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match="an endpoint must be HOST:PORT") as refused:
        Endpoint.parse(text)

    assert repr(text) in str(refused.value)


def closed(mode: EgressMode, address: str) -> bool:
    """Whether one of the lists of closed networks has the address."""
    wanted = ip_address(address)
    for line in ruleset(MARK, mode, []).splitlines():
        if " daddr { " in line and line.endswith("goto closed"):
            networks = line.partition("{ ")[2].partition(" }")[0].split(", ")
            if any(wanted in ip_network(network) for network in networks):
                return True
    return False


METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "fe80::1",
    "fd00:ec2::254",
    "168.63.129.16",
    "100.100.100.200",
]
PRIVATE = ["10.255.255.53", "172.31.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "224.0.0.251", "ff02::1"]
PUBLIC = ["8.8.8.8", "172.32.0.1", "199.36.153.8", "2001:4860:4860::8888"]


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("mode", [EgressMode.OPEN, EgressMode.INTERNET])
def test_metadata_of_clouds_are_closed(mode: EgressMode, address: str) -> None:
    assert closed(mode, address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_networks_are_closed_by_internet_alone(address: str) -> None:
    assert closed(EgressMode.INTERNET, address)
    assert not closed(EgressMode.OPEN, address)


@pytest.mark.parametrize("address", PUBLIC)
def test_the_internet_is_closed_by_none_alone(address: str) -> None:
    assert not closed(EgressMode.INTERNET, address)
    assert "\ngoto closed\n" in ruleset(MARK, EgressMode.NONE, [])
    assert "\ngoto closed\n" not in ruleset(MARK, EgressMode.INTERNET, [])


@pytest.mark.parametrize("mode", list(EgressMode))
def test_the_machine_is_closed_before_the_own_network_is_open_and_after_endpoints(mode: EgressMode) -> None:
    lines = ruleset(MARK, mode, [(None, 9023), (ip_network("fd00::1"), 1)]).splitlines()

    places = [
        lines.index(line)
        for line in (
            "ct state established,related accept",
            "fib daddr type local meta l4proto { tcp, udp } th dport 9023 accept",
            "ip6 daddr fd00::1/128 meta l4proto { tcp, udp } th dport 1 accept",
            "fib daddr type local goto closed",
            "fib daddr . iif oif exists accept",
        )
    ]
    assert places == sorted(places)
    assert any("dport 53 " in line for line in lines) is (mode is not EgressMode.NONE)


def test_a_table_replaces_the_one_of_before_and_is_no_other_services() -> None:
    text = ruleset(MARK, EgressMode.OPEN, [])
    table = table_of(MARK)

    assert text.startswith(f"table inet {table} {{}}\ndelete table inet {table}\ntable inet {table} {{\n")
    assert table_of(mark_of("another")) not in text


def test_an_interface_has_the_services_mark_and_is_short_enough() -> None:
    first, second = bridge_of(MARK, "job"), bridge_of(MARK, "another")

    assert first != second
    assert len(first) == len(second) == 15  # the most that Linux takes
    assert f'iifname "{first[:8]}*" jump job' in ruleset(MARK, EgressMode.OPEN, [])


def test_jobs_that_share_a_bridge_are_closed_to_each_other_before_anything_is_open() -> None:
    lines = ruleset(MARK, EgressMode.INTERNET, [(ip_network("10.0.0.0/8"), 53)]).splitlines()

    bridge = shared_bridge_of(MARK)
    closed = lines.index(f'iifname "{bridge}" fib daddr . iif oif exists goto closed')
    opened = [n for n, line in enumerate(lines) if "dport" in line and line.endswith("accept")]
    assert closed < min(opened)
    assert len(bridge) <= 15
    assert f'iifname "{bridge[:8]}*" jump job' in "\n".join(lines)


def test_another_digest_is_another_reach() -> None:
    first, second = Endpoint("a.test", 1), Endpoint("b.test", 2)
    digests = {
        Egress(mode, endpoints).digest
        for mode in EgressMode
        for endpoints in ((), (first,), (second,), (first, second))
    }

    assert len(digests) == 12
    assert Egress(EgressMode.NONE, (second, first)).digest in digests
