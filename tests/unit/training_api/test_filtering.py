"""
The filter language of jobs.list and entries:list.

Sources: google.aip.dev/160, "EBNF grammar"; cloud.google.com/logging/docs/view/logging-query-language,
"Boolean operators".
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.errors import InvalidFilter
from training_api.filtering import MAX_TERMS, And, Comparison, Filter, Not, Or, parse_filter

A, B, C, D = (Comparison(name, "=", "1") for name in "abcd")

#: What gcloud 528 sends to follow a job's log, and to follow on from a place where several lines share a
#: time.
STREAM_LOGS = (
    '(resource.type="ml_job" OR resource.type="cloudml_job") AND resource.labels.job_id="X"'
    ' AND timestamp>="1970-01-01T01:00:00.000000000Z" AND timestamp<"2026-01-31T12:00:00.000000Z"'
)
STREAM_LOGS_ON = (
    '(resource.type="ml_job" OR resource.type="cloudml_job") AND resource.labels.job_id="X"'
    ' AND ((timestamp="T" AND insertId>"I") OR timestamp>"T") AND timestamp<"U"'
    ' AND (resource.labels.task_name="W" OR labels.task_name="W")'
)


@pytest.mark.parametrize("text", ["", " ", "\t\n "])
def test_an_empty_filter_has_no_tree(text: str) -> None:
    assert parse_filter(text) is None


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", ":"])
def test_every_operator_is_read_with_and_without_spaces(op: str) -> None:
    assert parse_filter(f"state{op}RUNNING") == Comparison("state", op, "RUNNING")
    assert parse_filter(f"  state {op} RUNNING ") == Comparison("state", op, "RUNNING")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a=1 AND b=1", And((A, B))),
        ("a=1 b=1", And((A, B))),
        ("a=1 OR b=1", Or((A, B))),
        ("a=1 AND b=1 AND c=1", And((A, B, C))),
        ("a=1 OR b=1 OR c=1", Or((A, B, C))),
        ("NOT a=1", Not(A)),
        ("-a=1", Not(A)),
        ("- a=1", Not(A)),
        ("NOT NOT a=1", Not(Not(A))),
        ("NOT -a=1", Not(Not(A))),
        ("NOT a=1 AND b=1", And((Not(A), B))),
        ("NOT a=1 OR b=1", Or((Not(A), B))),
        ("-a=1 b=1", And((Not(A), B))),
        ("NOT (a=1 AND b=1)", Not(And((A, B)))),
        ("-(a=1 OR b=1)", Not(Or((A, B)))),
        ("(a=1)", A),
        ("((a=1))(b=1)", And((A, B))),
        ("(a=1 AND b=1) OR c=1", Or((And((A, B)), C))),
        ("a=1 OR (b=1 AND c=1)", Or((A, And((B, C))))),
        ("(a=1 OR b=1) AND c=1", And((Or((A, B)), C))),
    ],
)
def test_operators_combine(text: str, tree: Filter) -> None:
    assert parse_filter(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a=1 AND b=1 OR c=1", And((A, Or((B, C))))),
        ("a=1 OR b=1 AND c=1", And((Or((A, B)), C))),
        ("a=1 b=1 OR c=1", And((A, Or((B, C))))),
        # The example of the query language's own page.
        ("a=1 OR NOT b=1 AND NOT c=1 OR d=1", And((Or((A, Not(B))), Or((Not(C), D))))),
    ],
)
def test_or_binds_tighter_than_and_as_both_sources_say(text: str, tree: Filter) -> None:
    assert parse_filter(text) == tree


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"RUNNING"', "RUNNING"),
        ('""', ""),
        ('"a b"', "a b"),
        ('"a AND (b=c)"', "a AND (b=c)"),
        (r'"say \"hi\""', 'say "hi"'),
        (r'"back\\slash"', r"back\slash"),
        (r'"end\\"', "end\\"),
        ('"2026-01-31T12:00:00Z"', "2026-01-31T12:00:00Z"),
        ("-5", "-5"),
        ("1.5", "1.5"),
        ("master-replica-0", "master-replica-0"),
    ],
)
def test_a_value_is_a_word_or_a_quoted_string(written: str, value: str) -> None:
    assert parse_filter(f"a={written}") == Comparison("a", "=", value)


def test_a_path_keeps_its_dots_and_dashes() -> None:
    assert parse_filter("labels.airflow-dag=x") == Comparison("labels.airflow-dag", "=", "x")


def test_the_filter_of_gcloud_stream_logs_is_read() -> None:
    tree = parse_filter(STREAM_LOGS)

    assert tree == And(
        (
            Or((Comparison("resource.type", "=", "ml_job"), Comparison("resource.type", "=", "cloudml_job"))),
            Comparison("resource.labels.job_id", "=", "X"),
            Comparison("timestamp", ">=", "1970-01-01T01:00:00.000000000Z"),
            Comparison("timestamp", "<", "2026-01-31T12:00:00.000000Z"),
        )
    )


def test_the_filter_with_which_gcloud_goes_on_is_read() -> None:
    tree = parse_filter(STREAM_LOGS_ON)

    assert isinstance(tree, And)
    assert tree.operands[2:] == (
        Or(
            (
                And((Comparison("timestamp", "=", "T"), Comparison("insertId", ">", "I"))),
                Comparison("timestamp", ">", "T"),
            )
        ),
        Comparison("timestamp", "<", "U"),
        Or((Comparison("resource.labels.task_name", "=", "W"), Comparison("labels.task_name", "=", "W"))),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "the filter needs a comparison after 'a' where it has 'the end': 'a'"),
        ("a b", "the filter needs a comparison after 'a' where it has 'b': 'a b'"),
        ("a=", "the filter needs a value after 'a =' where it has 'the end': 'a='"),
        ("a==1", "the filter needs a value after 'a =' where it has '=': 'a==1'"),
        ("a=(1)", "the filter needs a value after 'a =' where it has '(': 'a=(1)'"),
        ("=1", "the filter needs a field name where it has '=': '=1'"),
        ('"a"=1', "the filter needs a field name where it has '\"a\"': '\"a\"=1'"),
        ("a=1 AND", "the filter needs a field name where it has 'the end': 'a=1 AND'"),
        ("a=1 OR", "the filter needs a field name where it has 'the end': 'a=1 OR'"),
        ("NOT", "the filter needs a field name where it has 'the end': 'NOT'"),
        ("()", "the filter needs a field name where it has ')': '()'"),
        ("(a=1", "the filter needs ')' where it has 'the end': '(a=1'"),
        ("a=1)", "the filter needs AND, OR or the end where it has ')': 'a=1)'"),
        ("OR a=1", "the filter needs a comparison after 'OR' where it has 'a': 'OR a=1'"),
        ('a="1', "the filter cannot be read at '\"1'"),
        ("a=1 !b=1", "the filter cannot be read at ' !b=1'"),
    ],
)
def test_an_error_names_the_place_and_what_is_missing_there(text: str, message: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "NOT " * 10_000,
        "NOT " * 4_000,
        "- " * 9_000,
        "-(" * 9_000,
        "(" * 5_000 + "a=1" + ")" * 5_000,
        "NOT (" * 2_000 + "a=1" + ")" * 2_000,
        "(a=1 OR " * 2_000 + "a=1" + ")" * 2_000,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter, match=r"may nest at most 50 deep|must be at most 20000 characters"):
        parse_filter(text)


@pytest.mark.parametrize(
    "text", ["(" * 50 + "a=1" + ")" * 50, "NOT " * 50 + "a=1", "-(" * 25 + "a=1" + ")" * 25]
)
def test_nesting_up_to_the_limit_is_read(text: str) -> None:
    assert parse_filter(text) is not None


def test_a_long_flat_filter_is_read() -> None:
    tree = parse_filter(" OR ".join(["a=1"] * MAX_TERMS))

    assert tree == Or((A,) * MAX_TERMS)


@pytest.mark.parametrize("operator", [" OR ", " AND ", " ", " OR NOT "])
def test_more_comparisons_than_the_limit_are_refused(operator: str) -> None:
    with pytest.raises(InvalidFilter, match="a filter must have at most 500 comparisons"):
        parse_filter(operator.join(["a=1"] * (MAX_TERMS + 1)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=\ud800", r"without NUL and lone surrogates, got '\\ud800' at character 3; leave it out"),
        ('a="b\x00"', r"without NUL and lone surrogates, got '\\x00' at character 5"),
        ("a=" + "1" * 20_000, "must be at most 20000 characters, got 20002"),
        ("a" * 19_000, r"a comparison after 'a{300}\.\.\.' where it has 'the end': 'a{300}\.\.\.'$"),
    ],
)
def test_a_text_that_no_database_takes_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message):
        parse_filter(text)


@settings(deadline=None)
@given(value=st.text(st.sampled_from('ab"\\ ()\n') | st.characters(codec="utf-8"), max_size=20))
def test_any_text_can_be_quoted(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')

    assert parse_filter(f'a="{quoted}"') == Comparison("a", "=", value)


_pieces = st.sampled_from(
    [
        "a",
        "state",
        "=",
        "!=",
        "<",
        ">=",
        ":",
        "!",
        "(",
        ")",
        "AND",
        "OR",
        "NOT",
        "-",
        "-a",
        '"x y"',
        '"',
        "\\",
        "1",
        " ",
    ]
)


@settings(deadline=None)
@given(
    text=st.text(max_size=60) | st.lists(_pieces, max_size=25).map(" ".join) | st.lists(_pieces).map("".join)
)
def test_any_text_is_a_tree_or_nothing_or_refused(text: str) -> None:
    try:
        tree = parse_filter(text)
    except InvalidFilter:
        return

    assert tree is None or isinstance(tree, (Comparison, Not, And, Or))
    assert (tree is None) == (not text.strip())
