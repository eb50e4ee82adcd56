"""Objects by the JSON API, but for their bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.object_store.conftest import BUCKET, Site


def test_a_list_has_pages_prefixes_and_a_selection(site: Site) -> None:
    for name in ("a/1", "a/2", "b", "c 👍"):
        site.put(name)

    page = site.ask("GET", f"{BUCKET}/o", params={"delimiter": "/", "maxResults": "2"}).json()
    token = page["nextPageToken"]
    rest = site.ask("GET", f"{BUCKET}/o", params={"delimiter": "/", "pageToken": token}).json()

    assert (page["prefixes"], [item["name"] for item in page["items"]]) == (["a/"], ["b"])
    assert [item["name"] for item in rest["items"]] == ["c 👍"]
    fields = {"fields": "items(name),prefixes", "prefix": "a/"}
    assert site.ask("GET", f"{BUCKET}/o", params=fields).json() == {
        "items": [{"name": "a/1"}, {"name": "a/2"}]
    }
    assert site.ask("GET", f"{BUCKET}/o?pageToken=x").status_code == 400


def test_copy_rewrite_move_and_compose_are_told_from_each_other(site: Site) -> None:
    site.put("a/x", b"bytes")
    source = f"{BUCKET}/o/a%2Fx"

    assert site.ask("POST", f"{source}/copyTo/b/demo/o/copy").json()["size"] == "5"
    rewritten = site.ask("POST", f"{source}/rewriteTo/b/demo/o/r%2F1", json={"contentType": "x"}).json()
    assert (rewritten["done"], rewritten["totalBytesRewritten"]) == (True, "5")
    assert rewritten["resource"]["contentType"] == "x"
    assert site.ask("POST", f"{source}/moveTo/o/moved").json()["name"] == "moved"
    sources = {"sourceObjects": [{"name": "moved"}, {"name": "copy"}], "destination": {"contentType": "y"}}
    joined = site.ask("POST", f"{BUCKET}/o/joined/compose", json=sources).json()
    assert (joined["componentCount"], joined["contentType"], "md5Hash" in joined) == (2, "y", False)
    assert site.get("joined") == b"bytesbytes"
    names = [item["name"] for item in site.ask("GET", f"{BUCKET}/o").json()["items"]]
    assert names == ["copy", "joined", "moved", "r/1"]


def test_conditions_of_source_and_target_have_their_own_names(site: Site) -> None:
    generation = site.put("a", b"x")["generation"]
    copy = f"{BUCKET}/o/a/copyTo/b/demo/o/b"

    for query, status in (
        ("ifSourceGenerationMatch=1", 412),
        (f"ifSourceGenerationNotMatch={generation}", 412),
        ("ifSourceMetagenerationMatch=2", 412),
        ("ifSourceMetagenerationNotMatch=1", 412),
        ("ifGenerationMatch=1", 412),
        ("ifSourceGenerationMatch=x", 400),
        ("sourceGeneration=1", 404),
        (f"sourceGeneration={generation}&ifGenerationMatch=0", 200),
    ):
        assert site.ask("POST", f"{copy}?{query}").status_code == status, query


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sourceObjects": {}},
        {"sourceObjects": []},
        {"sourceObjects": ["a"]},
        {"sourceObjects": [{}]},
        {"sourceObjects": [{"name": "a"}] * 33},
        {"sourceObjects": [{"name": "a", "generation": "x"}]},
        {"sourceObjects": [{"name": "a", "generation": -1}]},
        {"sourceObjects": [{"name": "a", "objectPreconditions": []}], "destination": 5},
        {"sourceObjects": [{"name": "a", "objectPreconditions": 5}]},
        {"sourceObjects": [{"name": "a", "objectPreconditions": {"ifGenerationMatch": True}}]},
        {"sourceObjects": [{"name": "a"}], "destination": 5},
        {"sourceObjects": [{"name": "a"}], "destination": {"contentType": 5}},
    ],
)
def test_a_compose_that_is_none_is_refused(body: dict[str, Any], site: Site) -> None:
    site.put("a")

    assert site.ask("POST", f"{BUCKET}/o/j/compose", json=body).status_code == 400


def test_sources_of_a_compose_may_have_conditions(site: Site) -> None:
    generation = int(site.put("a", b"x")["generation"])

    for wanted, status in ((1, 412), (generation, 200), (str(generation), 200)):
        source = {"name": "a", "generation": generation, "objectPreconditions": {"ifGenerationMatch": wanted}}
        body = {"sourceObjects": [source]}
        assert site.ask("POST", f"{BUCKET}/o/j/compose", json=body).status_code == status


@pytest.mark.parametrize("condition", ["ifGenerationMatch", "ifMetagenerationMatch"])
@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_changes_have_conditions(condition: str, method: str, site: Site) -> None:
    site.put("a")

    assert site.ask(method, f"{BUCKET}/o/a?{condition}=5", json={}).status_code == 412
    assert site.ask(method, f"{BUCKET}/o/absent", json={}).status_code == 404


def test_a_path_that_is_no_utf_8_is_refused(site: Site) -> None:
    assert site.ask("GET", f"{BUCKET}/o/%ff").status_code == 400
    assert site.ask("GET", "/storage/v1/b/%ff").status_code == 400
