from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import PlanError
from shardlib.fields import Fields, canonical, parse, short

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_canonical_json_is_read_back_and_is_ascii(value: Any) -> None:
    text = canonical(value)
    assert text.isascii()
    assert parse(text, "x", PlanError) == value
    assert canonical(parse(text, "x", PlanError)) == text


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "{} {}", "NaN", '{"a": Infinity}', '{"a": 1, "a": 1}', "[" * 100_000, "1" * 5000, "\x00"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"file\.json: not valid JSON"):
        parse(text, "file.json", PlanError)


def test_a_value_in_a_message_is_short() -> None:
    assert short("x" * 1000) == "'" + "x" * 96 + "..."
    assert short(10**5000) == "a huge int"


def fields(**values: Any) -> Fields:
    return Fields(values, "there", PlanError)


@pytest.mark.parametrize("value", ["1", 1.0, True, None, 0, 11])
def test_an_integer_is_neither_text_nor_bool_nor_out_of_range(value: Any) -> None:
    with pytest.raises(PlanError, match=r"there: 'n' is .*, expected an integer from 1 to 10"):
        fields(n=value).integer("n", 1, 10)


@pytest.mark.parametrize(
    "value", ["1", True, None, -1, 11.5, float("nan"), float("inf"), pytest.param(10**400, id="huge")]
)
def test_a_number_is_finite_and_in_range(value: Any) -> None:
    with pytest.raises(PlanError, match="'n'"):
        fields(n=value).number("n", 0, 10)


@pytest.mark.parametrize("value", [1, None, "", "x" * 11, ["x"]])
def test_a_text_is_bounded_and_not_empty(value: Any) -> None:
    with pytest.raises(PlanError, match="'t'"):
        fields(t=value).text("t", most=10)


@pytest.mark.parametrize("value", ["a", None, {}, [1], [None], ["x"] * 4])
def test_a_list_of_texts_holds_only_texts_and_not_too_many(value: Any) -> None:
    with pytest.raises(PlanError, match="'l'"):
        fields(l=value).texts("l", most=3)


def test_missing_unknown_and_foreign_are_refused_by_name() -> None:
    with pytest.raises(PlanError, match="there: 'a' is missing"):
        fields().text("a")
    with pytest.raises(PlanError, match="there: unknown field 'b'"):
        fields(b=1).end()
    with pytest.raises(PlanError, match=r"there is \[\], expected an object"):
        Fields([], "there", PlanError)


def test_null_counts_as_absent() -> None:
    given_fields = fields(a=None)
    assert not given_fields.has("a")
    given_fields.end()
