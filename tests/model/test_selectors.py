"""Selectors match as in Kubernetes, and two that cannot meet in one pod are known as such."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Relation,
    Requirement,
    Selector,
    key_flaws,
    relation,
    syntax_problems,
    value_flaws,
)

GOOD_KEYS = ["app", "a", "My_name.is-1", "app.kubernetes.io/name", "x" * 63, f"{'x' * 253}/name"]
BAD_NAMES = ["", "-app", "app.", "a b", "é", "app\n", "x" * 64, "/name", "prefix/"]
BAD_PREFIXES = ["Prefix/name", "-prefix/name", "a..b/name", "a/b/name", f"{'x' * 254}/name"]


@pytest.mark.parametrize(
    ("key", "flaws"),
    [
        *((key, 0) for key in GOOD_KEYS),
        *((key, 1) for key in BAD_NAMES + BAD_PREFIXES),
        ("Prefix/", 2),
    ],
)
def test_keys(key: str, flaws: int) -> None:
    """Prefix and name of a key are judged apart."""
    assert len(key_flaws(key)) == flaws


@pytest.mark.parametrize(
    ("value", "flaws"),
    [("", 0), ("1.0_b-C", 0), ("x" * 63, 0), ("x" * 64, 1), ("a b", 1), ("-a", 1), ("a/b", 1)],
)
def test_values(value: str, flaws: int) -> None:
    """A value may be empty, and has no prefix."""
    assert len(value_flaws(value)) == flaws


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a selector of one expression as JSON."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=1", {"a": "1", "b": "2"}, True),
        ("a=1", {"a": "2"}, False),
        ("a=1", {}, False),
        ("a=1,b=2", {"a": "1"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a!=1", {"a": "2"}, True),
        ("a!=1", {"a": "1"}, False),
        ("a!=1", {}, True),
        ("a notin (1,2)", {"a": "2"}, False),
        ("a notin (1,2)", {}, True),
        ("a", {"a": ""}, True),
        ("a", {"b": ""}, False),
        ("!a", {"b": ""}, True),
        ("!a", {"a": ""}, False),
        ("", {}, True),
    ],
)
def test_matching(text: str, labels: dict[str, str], matches: bool) -> None:
    """All requirements must hold; only `in`, `=` and a bare key need the label to exist."""
    assert Selector.parse(text).matches(labels) is matches


def test_nothing_and_everything() -> None:
    """An absent selector selects nothing, an empty one everything."""
    nothing, everything = Selector.read(None, "spec.selector"), Selector.read({}, "spec.selector")
    assert (nothing, everything) == (NOTHING, EVERYTHING)
    assert (nothing.matches({}), everything.matches({})) == (False, True)
    assert (nothing.is_everything, everything.is_everything) == (False, True)
    assert str(nothing) != str(everything)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("  ", ""),
        ("b=2, a=1", "a=1,b=2"),
        ("a == 1", "a=1"),
        ("a in (1)", "a=1"),
        ("a in(2, 1)", "a in (1,2)"),
        ("a in ()", "a="),
        ("a in (1,,2)", "a in (,1,2)"),
        ("a notin (1)", "a!=1"),
        ("a notin (2,1)", "a notin (1,2)"),
        ("! a , b", "!a,b"),
        ("in in (in, notin)", "in in (in,notin)"),
        ("a=1,a=1", "a=1"),
        ("x.io/a\t=\n1", "x.io/a=1"),
        ("a=b,c in (d,e),!f,g", "a=b,c in (d,e),!f,g"),
    ],
)
def test_text_is_canonical(text: str, printed: str) -> None:
    """However it was written, one selector has one text."""
    assert str(Selector.parse(text)) == printed


NO_SELECTORS = "a, | , | a b | a in | a in (1 | a in (1 2) | a=1 2 | !a=1 | !!a | a===1 | a=!1"
NO_KEYS = "a>1 | a<1 | -a | A/b | a=b/c"
LONG = ["(" * 100_000, "a " * 100_000]


@pytest.mark.parametrize(
    "text",
    [*NO_SELECTORS.split(" | "), *NO_KEYS.split(" | "), *LONG],
    ids=lambda text: text[:12],
)
def test_texts_that_are_no_selector(text: str) -> None:
    """What cannot be read is refused with the text in the sentence."""
    with pytest.raises(BadObject, match="is no label selector") as refused:
        Selector.parse(text)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("json", "text"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchLabels": None, "matchExpressions": None}, ""),
        (expression("a", "In", "2", "1"), "a in (1,2)"),
        (expression("a", "NotIn", "1"), "a!=1"),
        (expression("a", "Exists"), "a"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
        ({"matchLabels": {"a": "1"}, **expression("b", "Exists")}, "a=1,b"),
    ],
)
def test_reading_objects(json: object, text: str) -> None:
    """Labels and expressions of a LabelSelector add up."""
    assert str(Selector.read(json, "spec.selector")) == text


def test_of_labels() -> None:
    """Labels become equalities; none of them, everything."""
    assert Selector.of_labels({"a": "1"}) == Selector.read({"matchLabels": {"a": "1"}}, "")
    assert Selector.of_labels({}) == EVERYTHING


@pytest.mark.parametrize(
    ("json", "path"),
    [
        ("a=1", "s"),
        ([], "s"),
        ({"matchLabels": []}, "s.matchLabels"),
        ({"matchLabels": {"a": 1}}, "s.matchLabels[a]"),
        ({"matchExpressions": {}}, "s.matchExpressions"),
        ({"matchExpressions": ["a"]}, "s.matchExpressions[0]"),
        ({"matchExpressions": [{"key": 1, "operator": "Exists"}]}, "s.matchExpressions[0].key"),
        (expression("a", "Equals", "1"), "s.matchExpressions[0].operator"),
        (expression("a", "in", "1"), "s.matchExpressions[0].operator"),
        ({"matchExpressions": [{"key": "a"}]}, "s.matchExpressions[0].operator"),
        (expression("a", "In"), "s.matchExpressions[0].values"),
        (expression("a", "NotIn"), "s.matchExpressions[0].values"),
        (expression("a", "Exists", "1"), "s.matchExpressions[0].values"),
        (expression("a", "DoesNotExist", "1"), "s.matchExpressions[0].values"),
    ],
)
def test_objects_that_are_no_selector(json: object, path: str) -> None:
    """A wrong shape or operator is refused where it is, in reading and in validating alike."""
    with pytest.raises(BadObject) as refused:
        Selector.read(json, "s")
    assert refused.value.path == path
    assert [found for found, _ in syntax_problems(json, "s")] == [path]


def test_syntax_problems_are_all_found() -> None:
    """Every flaw is reported with its path and the kind of error an API server would name."""
    json = {
        "matchLabels": {"-a": "1", "b": "x y"},
        "matchExpressions": [
            {"key": "c", "operator": "Like", "values": ["1"]},
            {"key": "D/d", "operator": "In"},
            {"key": "e", "operator": "Exists", "values": ["é"]},
        ],
    }
    assert [(path, body.split(":")[0]) for path, body in syntax_problems(json, "s")] == [
        ("s.matchLabels", "Invalid value"),
        ("s.matchLabels[b]", "Invalid value"),
        ("s.matchExpressions[0].operator", "Invalid value"),
        ("s.matchExpressions[1].values", "Required value"),
        ("s.matchExpressions[1].key", "Invalid value"),
        ("s.matchExpressions[2].values", "Forbidden"),
        ("s.matchExpressions[2].values[0]", "Invalid value"),
    ]


def test_a_wrong_shape_hides_nothing_before_it() -> None:
    """What was found before an unreadable field is still reported."""
    json = {"matchLabels": {"-a": "1"}, "matchExpressions": 5}
    assert [path for path, _ in syntax_problems(json, "s")] == [
        "s.matchLabels",
        "s.matchExpressions",
    ]


def test_good_selectors_have_no_problems() -> None:
    """A selector as people write it passes."""
    json = {"matchLabels": {"app.kubernetes.io/name": "db"}, **expression("role", "In", "", "x")}
    assert syntax_problems(json, "s") == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("role=leader", "role=follower", Relation.DISJOINT),
        ("role in (a,b)", "role in (c,d)", Relation.DISJOINT),
        ("role=a", "role!=a", Relation.DISJOINT),
        ("role in (a,b)", "role notin (a,b,c)", Relation.DISJOINT),
        ("role", "!role", Relation.DISJOINT),
        ("role=a", "!role", Relation.DISJOINT),
        ("role=a,zone=x", "role=a,zone=y", Relation.DISJOINT),
        ("role in (a,b),role notin (b)", "role in (b,c)", Relation.DISJOINT),
        ("role in (a,b),role in (b,c)", "role in (a,c)", Relation.DISJOINT),
        ("", "role=a", Relation.CATCH_ALL),
        ("", "", Relation.CATCH_ALL),
        ("role=a", "zone=x", Relation.DIFFERENT_KEYS),
        ("role=a", "zone!=x", Relation.DIFFERENT_KEYS),
        ("role in (a,b)", "role in (b,c)", Relation.OVERLAPPING),
        ("role in (a,b)", "role!=a", Relation.OVERLAPPING),
        ("role!=a", "role!=b", Relation.OVERLAPPING),
        ("role!=a", "!role", Relation.OVERLAPPING),
        ("role", "role=a", Relation.OVERLAPPING),
        ("role=a", "role=a,zone=x", Relation.OVERLAPPING),
    ],
)
def test_relation(a: str, b: str, expected: Relation) -> None:
    """Two selectors are told apart by one key, whichever comes first."""
    one, other = Selector.parse(a), Selector.parse(b)
    assert (relation(one, other), relation(other, one)) == (expected, expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (None, None, Relation.CATCH_ALL),
        (None, NOTHING, Relation.CATCH_ALL),
        (EVERYTHING, Selector.parse("a=1"), Relation.CATCH_ALL),
        (NOTHING, Selector.parse("a=1"), Relation.DISJOINT),
        (Selector.parse("a=1"), NOTHING, Relation.DISJOINT),
    ],
)
def test_relation_of_absent_selectors(
    a: Selector | None, b: Selector | None, expected: Relation
) -> None:
    """A VPA without a selector takes all pods; a selector of nothing takes none."""
    assert relation(a, b) is expected


@pytest.mark.parametrize(
    ("text", "is_contradictory"),
    [
        ("a,!a", True),
        ("a=1,!a", True),
        ("a=1,a=2", True),
        ("a in (1,2),a notin (1,2)", True),
        ("a in (1,2),a!=1", False),
        ("a!=1,!a", False),
        ("a=1,b=2", False),
        ("", False),
    ],
)
def test_contradictions(text: str, is_contradictory: bool) -> None:
    """A selector that no labels can meet knows it."""
    assert Selector.parse(text).is_contradictory is is_contradictory


def test_nothing_is_contradictory() -> None:
    """A selector of nothing is met by no labels."""
    assert NOTHING.is_contradictory


KEYS = ("a", "b")
VALUES = ("1", "2", "3")
WORLDS = [  # every label map over the keys, with a value that no selector names
    {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}
    for values in product((None, *VALUES, "other"), repeat=len(KEYS))
]
SOME_VALUES = st.frozensets(st.sampled_from(VALUES), min_size=1)
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    SOME_VALUES,
) | st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
)
SELECTORS = st.builds(Selector, st.lists(REQUIREMENTS, max_size=4).map(tuple))


@given(SELECTORS, SELECTORS)
def test_disjoint_means_that_no_labels_match_both(a: Selector, b: Selector) -> None:
    """Disjoint selectors never meet, and others do, unless one of them contradicts itself."""
    assume(not (a.is_contradictory or b.is_contradictory))
    met = any(a.matches(labels) and b.matches(labels) for labels in WORLDS)
    assert met is (relation(a, b) is not Relation.DISJOINT)


@given(SELECTORS)
def test_contradictory_means_that_no_labels_match(selector: Selector) -> None:
    """Contradictions are found, and only they."""
    assert selector.is_contradictory is not any(map(selector.matches, WORLDS))


@given(SELECTORS)
def test_text_is_identity(selector: Selector) -> None:
    """A printed selector reads back as an equal one."""
    assert Selector.parse(str(selector)) == selector


@given(st.lists(REQUIREMENTS, max_size=4))
def test_order_does_not_matter(requirements: list[Requirement]) -> None:
    """Selectors of the same requirements are one key of a dict."""
    forth, back = Selector(tuple(requirements)), Selector(tuple(reversed(requirements)))
    assert {forth: "found"}[back] == "found"


@given(st.text(max_size=20) | st.text("ab=!,()in ", max_size=20))
def test_parsing_never_crashes(text: str) -> None:
    """A text is a selector, which reads back, or is refused in a sentence."""
    try:
        selector = Selector.parse(text)
    except BadObject:
        return
    assert Selector.parse(str(selector)) == selector
