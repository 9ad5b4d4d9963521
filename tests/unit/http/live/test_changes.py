"""A patch makes the later state of the earlier one, by the rules of RFC 7396."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.http.live.changes import changes

# A member that is null is absent: the reader of a patch cannot tell.
STATES = st.recursive(
    st.one_of(st.integers(0, 3), st.booleans(), st.text(max_size=2), st.lists(st.integers(0, 2))),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=1), inner, max_size=3),
)
VIEWS = st.dictionaries(st.text("abc", min_size=1, max_size=1), STATES, max_size=3)


def patched(target: Any, patch: Any) -> Any:
    """Return the target after the patch: the procedure of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = patched(made.get(name), value)
    return made


def same(one: Any, other: Any) -> bool:
    """True if both are the same JSON: true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[each], other[each]) for each in one)
    return type(one) is type(other) and bool(one == other)


@given(VIEWS, VIEWS)
def test_the_patch_makes_the_later_state(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert same(patched(before, changes(before, after)), after)


@given(VIEWS)
def test_no_change_is_an_empty_patch(view: dict[str, Any]) -> None:
    assert changes(view, view) == {}


def test_only_what_changed_is_in_the_patch() -> None:
    before = {"a": 1, "b": {"c": 2, "d": 3}, "rows": [1]}
    after = {"a": 1, "b": {"c": 4}, "rows": [1, 2]}
    assert changes(before, after) == {"b": {"c": 4, "d": None}, "rows": [1, 2]}
