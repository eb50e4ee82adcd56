"""What a command prints: results on standard output, the rest on standard error."""

from __future__ import annotations

import json

import pytest

from training_api.command_line.screen import Screen, table


def test_what_is_no_result_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=False).say("waiting [bold]for\x1b[2J")

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "waiting [bold]for\\x1b[2J\n")


def test_a_document_keeps_its_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=True).show_json({"name": "Grüße"})

    text = capsys.readouterr().out
    assert json.loads(text) == {"name": "Grüße"}
    assert "Grüße" in text


def test_a_long_line_is_not_folded_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 1_000

    Screen(as_json=False).show_lines(["Heading:", long])

    assert capsys.readouterr().out.splitlines() == ["Heading:", long]


def test_a_table_is_neither_cut_nor_folded_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(as_json=False)
    rows = table("JOB_ID", last="WHY")
    rows.add_row("j" * 200, "w" * 500)

    screen.out.print(rows)

    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["JOB_ID", "WHY"]
    assert row.split() == ["j" * 200, "w" * 500]
