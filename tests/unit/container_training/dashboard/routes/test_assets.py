"""The files that browsers load."""

from __future__ import annotations

import re

import pytest

from container_training.dashboard.routes import assets


def test_no_file_of_ours_names_another_host() -> None:
    ours = {name: text for name, text in assets.assets().items() if not name.startswith("vendor/")}

    for name, text in ours.items():
        found = set(re.findall(r"https?://[^\s\"'`]+", text.decode()))
        assert found <= {"http://www.w3.org/2000/svg"}, name


def test_every_module_that_is_imported_is_served() -> None:
    served = assets.assets()

    for name, text in served.items():
        if name.endswith(".js") and not name.startswith("vendor/"):
            for other in re.findall(r"(?:from|import\()\s*[\"']\./([^\"']+)", text.decode()):
                assert other in served, f"{name} imports {other}"


def test_only_files_that_browsers_load_are_read() -> None:
    assert assets.assets()
    assert {f".{name.rpartition('.')[2]}" for name in assets.assets()} <= set(assets.MEDIA_TYPES)


def test_another_content_or_name_has_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest_of(files: dict[str, bytes]) -> str:
        monkeypatch.setattr(assets, "assets", lambda: files)
        return assets.content_digest.__wrapped__()

    digests = [
        digest_of(files)
        for files in ({"a.js": b"1"}, {"a.js": b"2"}, {"b.js": b"1"}, {"a.js": b"", "b.js": b"1"}, {})
    ]

    assert len(set(digests)) == len(digests)
    assert all(re.fullmatch("[0-9a-f]{12}", digest) for digest in digests)
