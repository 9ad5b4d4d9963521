"""The modules that the compiled wheel leaves out and the tests that it cannot run, with reasons.

One rule: a reason is about mypyc or about a test, never about a result that differs.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

# Modules on the path of a set or a take that are not compiled.
WHY_PURE: Final = {
    "kestrelpy/server/clock.py": "tests put other clocks in its place",
}

# Tests that only the pure Python can run: by the beginning of their names.
_NO_SOURCES: Final = "it looks at the sources, which are not where the wheel is tested"
_NO_COPY: Final = "it copies a whole world, and objects of compiled classes have no copies"
_NO_STAND_IN: Final = "it puts a stand-in where a compiled class takes its own kind alone"
_NOT_HEARD: Final = "it replaces a method or a figure, which compiled callers do not look up"
_NO_CALLS: Final = "it counts calls, and compiled functions report none"
_NO_SPARK: Final = "its jobs run in processes that have the wheel and no PySpark"
PURE_ONLY: Final[dict[str, str]] = {
    "tests/model/test_once_machine.py": _NO_COPY,
    "tests/model/test_readers_machine.py": _NO_COPY,
    "tests/process/kill/test_kill_spark": _NO_SPARK,
    "tests/process/router/test_at_rest.py::test_a_body_that_comes_no_further": _NOT_HEARD,
    "tests/simulation/fleet/test_fleet_simulation.py::test_a_planted_mistake": _NOT_HEARD,
    "tests/simulation/test_checker.py::test_a_planted_mistake": _NOT_HEARD,
    "tests/unit/core/fanout/test_many_children.py::test_one_of_many": _NO_CALLS,
    "tests/unit/core/index/test_key_locks.py::test_finding_the_oldest_looks": _NO_CALLS,
    "tests/unit/core/queue/test_ack_up_to.py::test_the_keys_of_items_that_came_back": _NOT_HEARD,
    "tests/unit/core/queue/test_age_round.py": "it sets a part of a millisecond as a time",
    "tests/unit/core/subscription/test_bounded_work.py": _NO_CALLS,
    "tests/unit/core/subscription/test_flush.py::test_a_deletion_makes_no_calls": _NO_CALLS,
    "tests/unit/core/subscription/test_flush.py::test_a_flush_makes_no_calls": _NO_CALLS,
    "tests/unit/core/test_exits.py::test_with_little_limits": _NOT_HEARD,
    "tests/unit/core/test_schedules.py::test_it_waits_for_room_until": _NOT_HEARD,
    "tests/unit/operations/test_reads_meanwhile.py": _NOT_HEARD,
    "tests/unit/protocol/verbs/test_get_wait.py::test_one_key_is_answered_when": _NOT_HEARD,
    "tests/unit/server/connections/test_connection.py::test_a_client_that_is_ahead": _NOT_HEARD,
    "tests/unit/server/journals/test_read_cache.py::test_a_reader_for_which": _NO_STAND_IN,
    "tests/unit/server/journals/test_read_cache.py::test_a_turn_schedules_few": _NO_STAND_IN,
    "tests/unit/server/journals/test_read_cache.py::test_what_was_read_is_taken": _NO_STAND_IN,
    "tests/unit/server/test_answers_in_slices.py": _NO_STAND_IN,
    "tests/unit/server/test_exits.py": _NO_STAND_IN,
    "tests/unit/server/test_turn.py::test_a_turn_writes_some": _NOT_HEARD,
    "tests/unit/test_compiled.py::test_every": _NO_SOURCES,
    "tests/unit/test_compiled.py::test_no_face": _NO_SOURCES,
    "tests/unit/journal/format/test_format.py::test_the_drawing_of_the_frame": (
        "a compiled module has no docstring"
    ),
    "tests/unit/operations/test_item_texts.py::test_one_row": _NO_SOURCES,
}


def build_hook() -> ModuleType:
    """Return the module that makes the wheel, as hatchling loads it. Raises ImportError."""
    place = Path(__file__).parents[2] / "packaging/compiled/hook.py"
    spec = spec_from_file_location("hook", place)
    assert spec is not None and spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def attributes_of(kind: type) -> tuple[str, ...]:
    """Return the attributes that a class itself declares: its slots, or what mypyc made of them
    (with those of its bases)."""
    own = vars(kind)
    found = own.get("__slots__", own.get("__mypyc_attrs__", ()))
    return (found,) if isinstance(found, str) else tuple(found)


def skip_pure(items: list[pytest.Item]) -> None:
    """Skip what stands in PURE_ONLY, each with its reason there: pytest prints it."""
    for item in items:
        for name, why in PURE_ONLY.items():
            if item.nodeid.startswith(name):
                item.add_marker(pytest.mark.skip(reason=f"pure Python only: {why}"))
