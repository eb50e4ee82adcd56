"""How a registry is addressed: in the clear on this machine only, and by any of its names."""

from __future__ import annotations

import pytest

from training_api.iam.registry_wire import is_same_registry, manifest_url, registry_url
from training_api.job.image_ref import parse_image_ref


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("127.9.9.9", "http://127.9.9.9"),
        ("localhost:5000", "http://localhost:5000"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("gcr.io", "https://gcr.io"),
        ("10.0.0.1:5000", "https://10.0.0.1:5000"),
        ("localhost.example:1", "https://localhost.example:1"),
    ],
)
def test_only_loopback_is_asked_in_the_clear(host: str, url: str) -> None:
    assert registry_url(host) == url


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:5000", True),
        ("localhost:5000", True),
        ("127.9.9.9:5000", True),
        ("[::1]:5000", True),
        ("127.0.0.1:5001", False),
        ("localhost", False),
        ("10.0.0.1:5000", False),
        ("localhost.example:5000", False),
    ],
)
def test_every_name_of_this_machine_is_the_same_registry(host: str, is_ours: bool) -> None:
    assert is_same_registry(host, "127.0.0.1:5000") is is_ours


def test_two_other_registries_are_one_only_by_the_same_name() -> None:
    assert is_same_registry("gcr.io", "gcr.io")
    assert not is_same_registry("gcr.io", "eu.gcr.io")
    assert not is_same_registry("10.0.0.1:5000", "10.0.0.2:5000")


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("gcr.io/demo/train:1", "https://gcr.io/v2/demo/train/manifests/1"),
        ("gcr.io/demo/train", "https://gcr.io/v2/demo/train/manifests/latest"),
        (
            f"127.0.0.1:5000/demo/train:1@sha256:{'a' * 64}",
            f"http://127.0.0.1:5000/v2/demo/train/manifests/sha256:{'a' * 64}",
        ),
    ],
)
def test_a_manifest_is_asked_for_by_digest_before_tag(image: str, url: str) -> None:
    assert manifest_url(parse_image_ref(image)) == url
