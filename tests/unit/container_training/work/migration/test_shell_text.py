"""Pasted commands, read as a shell would split them, and never run."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.work.migration.shell_text import (
    ShellPart,
    ShellText,
    literal_pieces,
    read_shell_text,
)
from training_api.errors import InvalidCommand


def words(text: str) -> list[list[str]]:
    """Return the words of each command, with their shell parts as they were written."""
    read = read_shell_text(text)
    return [[read.as_written(word) for word in statement] for statement in read.statements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gcloud  a\t'b c' \"d e\" f\\ g", [["gcloud", "a", "b c", "d e", "f g"]]),
        ("", []),
        ("  \n\n", []),
        ("$ gcloud a", [["gcloud", "a"]]),
        ("%%bash\ngcloud a", [["gcloud", "a"]]),
        ("!gcloud a", [["gcloud", "a"]]),
        ("gcloud a \\\n  --b c", [["gcloud", "a", "--b", "c"]]),
        ("gcloud a \\  \r\n  --b c", [["gcloud", "a", "--b", "c"]]),
        ("gcloud a `\n  --b c", [["gcloud", "a", "--b", "c"]]),
        ("gcloud a ^\r\n  --b c", [["gcloud", "a", "--b", "c"]]),
        ("gcloud a # a comment\ngcloud b#c", [["gcloud", "a"], ["gcloud", "b#c"]]),
        ("gcloud a > out.txt 2>&1", [["gcloud", "a"]]),
        (
            "gcloud a; gcloud b && gcloud c || gcloud d | tee e &",
            [["gcloud", x] for x in "abc"] + [["gcloud", "d"], ["tee", "e"]],
        ),
        ("gcloud 'a;b' \"c&&d\" e\\;f", [["gcloud", "a;b", "c&&d", "e;f"]]),
    ],
)
def test_text_is_split_as_a_shell_does(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])), min_size=1, max_size=5))
def test_quoted_words_are_read_back_whatever_they_hold(arguments: list[str]) -> None:
    assert words(shlex.join(["gcloud", *arguments])) == [["gcloud", *arguments]]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("$(date +%s)", ""),
        ("$(echo $(whoami))", ""),
        ("`date`", ""),
        ("$BUCKET", "BUCKET"),
        ("${BUCKET}", "BUCKET"),
        ("${BUCKET:-x}", ""),
        ("$1", ""),
    ],
)
def test_what_only_a_shell_knows_stays_as_it_was_written(written: str, name: str) -> None:
    read = read_shell_text(f'gcloud "gs://{written}/x"')

    (_, word) = read.statements[0]
    assert read.parts_of(word) == [ShellPart(text=written, name=name)]
    assert read.as_written(word) == f"gs://{written}/x"
    assert read.replaced(word, {read.parts[0]: "b"}) == "gs://b/x"


@pytest.mark.parametrize("written", ["'$BUCKET'", "\\$BUCKET", '"\\$BUCKET"'])
def test_what_a_shell_would_leave_alone_is_text(written: str) -> None:
    read = read_shell_text(f"gcloud {written}")

    assert (read.statements, read.parts) == ([["gcloud", "$BUCKET"]], [])


def test_variables_that_the_text_assigns_are_put_in_their_places() -> None:
    text = 'BUCKET=gs://mine\nexport NAME="a b"\nJOB=$NAME-1\ngcloud --b $BUCKET/x --n ${NAME} --j $JOB --o $OTHER'

    assert words(text) == [["gcloud", "--b", "gs://mine/x", "--n", "a b", "--j", "a b-1", "--o", "$OTHER"]]


def test_a_variable_is_what_it_was_when_it_was_used() -> None:
    assert words("A=1\ngcloud $A\nA=2\ngcloud $A") == [["gcloud", "1"], ["gcloud", "2"]]


@pytest.mark.parametrize(
    "text", ["gcloud 'a", 'gcloud "a', "gcloud $(date", "gcloud ${A", "gcloud `date", "gcloud a\\"]
)
def test_what_is_not_closed_was_not_pasted_whole(text: str) -> None:
    with pytest.raises(InvalidCommand, match=r"was all of it pasted\?"):
        read_shell_text(text)


def test_marks_that_somebody_pasted_stand_for_nothing() -> None:
    assert words("gcloud \ue0000\ue001") == [["gcloud", "0"]]


def test_text_is_cut_at_its_marks() -> None:
    read: ShellText = read_shell_text("gcloud a$B-${C}d")
    (_, word) = read.statements[0]

    pieces = literal_pieces(word)

    assert pieces[::2] == ["a", "-", "d"]
    assert [read.as_written(piece) for piece in pieces[1::2]] == ["$B", "${C}"]
    assert literal_pieces("plain") == ["plain"]
