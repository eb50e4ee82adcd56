"""Image references. The grammar's source: github.com/distribution/reference ``regexp.go``."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.errors import InvalidImageRef
from training_api.job.image_ref import ImageRef, RegistryKind, parse_image_ref

DIGEST = "sha256:" + "0123456789abcdef" * 4

_word = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
_component = st.lists(_word, min_size=1, max_size=3).flatmap(
    lambda words: st.sampled_from([".", "_", "__", "-", "---"]).map(lambda joint: joint.join(words))
)
_hosts = st.sampled_from(["gcr.io", "localhost", "localhost:5000", "127.0.0.1:5000", "us-docker.pkg.dev"])
_tags = st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
image_refs = st.builds(
    ImageRef,
    host=_hosts,
    repository=st.lists(_component, min_size=1, max_size=4).map("/".join),
    tag=_tags,
    digest=st.sampled_from([None, DIGEST]),
)


def make_ref(**changes: Any) -> ImageRef:
    return ImageRef(**({"host": "gcr.io", "repository": "demo/train"} | changes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gcr.io/demo/train", make_ref()),
        ("gcr.io/demo/train:1.2_rc-3", make_ref(tag="1.2_rc-3")),
        (f"gcr.io/demo/train@{DIGEST}", make_ref(digest=DIGEST)),
        (f"gcr.io/demo/train:1@{DIGEST}", make_ref(tag="1", digest=DIGEST)),
        ("gcr.io/demo/a/b/c:1", make_ref(repository="demo/a/b/c", tag="1")),
        ("gcr.io/train", make_ref(repository="train")),
        ("gcr.io/demo/a.b_c__d---e", make_ref(repository="demo/a.b_c__d---e")),
        ("localhost/train", make_ref(host="localhost", repository="train")),
        ("localhost:5000/demo/train", make_ref(host="localhost:5000")),
        ("127.0.0.1:5000/demo/train:1", make_ref(host="127.0.0.1:5000", tag="1")),
        ("registry:5000/demo/train", make_ref(host="registry:5000")),
        ("[::1]:5000/demo/train", make_ref(host="[::1]:5000")),
        ("Registry.Example.COM/demo/train", make_ref(host="Registry.Example.COM")),
        ("gcr.io/demo/train:" + "a" * 128, make_ref(tag="a" * 128)),
        ("  gcr.io/demo/train:1\n", make_ref(tag="1")),
    ],
)
def test_a_reference_is_read_into_its_parts(text: str, expected: ImageRef) -> None:
    assert parse_image_ref(text) == expected


@pytest.mark.parametrize(
    "text", ["", "train", "train:1", "demo/train", "demo/train:1", f"train@{DIGEST}", "/train"]
)
def test_a_reference_without_a_registry_host_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(InvalidImageRef) as caught:
        parse_image_ref(text)

    assert str(caught.value) == f"image ref {text!r} has no registry host; expected HOST/PROJECT/NAME:TAG"


@pytest.mark.parametrize(
    "repository",
    [
        "",
        "Demo/train",
        "demo//train",
        "/demo",
        "demo/",
        "demo/-train",
        "demo/train_",
        "demo/a___b",
        "demo/a..b",
    ],
)
def test_a_repository_that_breaks_the_grammar_is_refused_by_its_name(repository: str) -> None:
    with pytest.raises(InvalidImageRef, match="is not lower-case path components joined by '/'") as caught:
        parse_image_ref(f"gcr.io/{repository}:1")

    assert repr(repository) in str(caught.value)


@pytest.mark.parametrize("tag", ["-a", ".a", "a b", "a/b", "a:b", "é", "a" * 129])
def test_a_tag_that_breaks_the_grammar_is_refused_by_its_name(tag: str) -> None:
    with pytest.raises(InvalidImageRef) as caught:
        parse_image_ref(f"gcr.io/demo/train:{tag}")

    assert str(caught.value) == f"image tag {tag!r} must be 1-128 of [A-Za-z0-9._-]"


@pytest.mark.parametrize(
    "digest", ["sha256", "sha256:abc", DIGEST.upper(), DIGEST + "0", "md5:" + "0" * 32, f"{DIGEST}:1"]
)
def test_a_digest_that_breaks_the_grammar_is_refused_by_its_name(digest: str) -> None:
    with pytest.raises(InvalidImageRef) as caught:
        parse_image_ref(f"gcr.io/demo/train@{digest}")

    assert str(caught.value) == f"image digest {digest!r} must be 'sha256:' and 64 hex digits"


@pytest.mark.parametrize("text", ["gcr.io/demo/train:", "gcr.io/demo/train@", f"gcr.io/demo/train:@{DIGEST}"])
def test_an_announced_part_that_is_empty_is_refused(text: str) -> None:
    with pytest.raises(InvalidImageRef):
        parse_image_ref(text)


@pytest.mark.parametrize(
    "host",
    ["exa mple.com", "-a.example.com", "a..b", "gcr.io:", "gcr.io:http", "user@gcr.io", "localhost:-1"],
)
def test_a_host_that_breaks_the_grammar_is_refused(host: str) -> None:
    with pytest.raises(InvalidImageRef):
        parse_image_ref(f"{host}/demo/train")


def test_a_url_is_no_image_reference() -> None:
    with pytest.raises(InvalidImageRef):
        parse_image_ref("https://gcr.io/demo/train:1")


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("gcr.io", RegistryKind.CONTAINER_REGISTRY),
        ("us.gcr.io", RegistryKind.CONTAINER_REGISTRY),
        ("eu.gcr.io", RegistryKind.CONTAINER_REGISTRY),
        ("asia.gcr.io", RegistryKind.CONTAINER_REGISTRY),
        ("us-central1-docker.pkg.dev", RegistryKind.ARTIFACT_REGISTRY),
        ("europe-docker.pkg.dev", RegistryKind.ARTIFACT_REGISTRY),
        ("mirror.gcr.io", RegistryKind.OTHER),
        ("gcr.io.example.com", RegistryKind.OTHER),
        ("us-docker.pkg.dev.example.com", RegistryKind.OTHER),
        ("docker.io", RegistryKind.OTHER),
        ("127.0.0.1:5000", RegistryKind.OTHER),
    ],
)
def test_the_host_tells_which_service_keeps_the_image(host: str, kind: RegistryKind) -> None:
    assert make_ref(host=host).kind is kind


@pytest.mark.parametrize(
    "text", ["gcr.io/demo/train:1", "us-docker.pkg.dev/demo/repo/train", "localhost:5000/demo/train"]
)
def test_the_first_path_component_is_the_project(text: str) -> None:
    assert parse_image_ref(text).project == "demo"


@pytest.mark.parametrize(
    ("changes", "pullable"),
    [
        ({}, "gcr.io/demo/train:latest"),
        ({"tag": "1"}, "gcr.io/demo/train:1"),
        ({"digest": DIGEST}, f"gcr.io/demo/train@{DIGEST}"),
        ({"tag": "1", "digest": DIGEST}, f"gcr.io/demo/train@{DIGEST}"),
    ],
)
def test_the_engine_is_asked_by_digest_if_there_is_one_else_by_tag(
    changes: dict[str, str], pullable: str
) -> None:
    assert make_ref(**changes).pullable == pullable


def test_an_image_at_a_digest_has_no_tag() -> None:
    pinned = make_ref(tag="1").at(DIGEST)

    assert pinned == make_ref(digest=DIGEST)
    assert str(pinned) == f"gcr.io/demo/train@{DIGEST}"


def test_an_image_cannot_be_pinned_to_what_is_no_digest() -> None:
    with pytest.raises(InvalidImageRef, match="image digest 'latest'"):
        make_ref().at("latest")


@settings(deadline=None)
@given(ref=image_refs)
def test_a_reference_survives_being_written_and_read(ref: ImageRef) -> None:
    assert parse_image_ref(str(ref)) == ref


@settings(deadline=None)
@given(text=st.text(max_size=40) | st.from_regex(r"[a-z.:]{1,8}/[a-zA-Z0-9._:@/-]{0,20}", fullmatch=True))
def test_any_text_is_an_image_reference_or_refused(text: str) -> None:
    try:
        ref = parse_image_ref(text)
    except InvalidImageRef:
        return

    assert parse_image_ref(str(ref)) == ref
