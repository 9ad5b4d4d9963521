"""The table of a transfer's states, told by what the spec promises of moves and of crashes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.transfer.transfer import (
    NEXT,
    OVER,
    Event,
    Transfer,
    TransferEffect,
    TransferState,
)

# A move is stored there, then done here; the target remembers the origin until the source's end is
# on disk; if that cannot be, the item is in doubt until files are gone, or a restart settles it.
# Each line is a state, each column an event; `-` cannot happen.
SPEC: Final = """
          COPY_STORED COPY_LOST END_STORED SOURCE_FAILED SOURCE_DELETED SOURCE_CLOSED SOURCE_STAYS SOURCE_GONE TARGET_GONE
COPYING   LEFT        STRANDED  -          IN_DOUBT      LEFT           ORPHANED      IN_DOUBT     SETTLED     -
LEFT      -           -         SETTLED    IN_DOUBT      -              ORPHANED      IN_DOUBT     SETTLED     -
ORPHANED  -           -         -          -             -              -             IN_DOUBT     SETTLED     -
IN_DOUBT  -           -         -          -             -              -             -            SETTLED     -
STRANDED  -           -         -          -             -              -             -            -           RETURNED
SETTLED   -           -         -          -             -              -             -            -           -
RETURNED  -           -         -          -             -              -             -            -           -
"""  # noqa: E501

_LINES: Final = [line.split() for line in SPEC.strip().splitlines()]
CELLS: Final = [
    (line[0], event, after)
    for line in _LINES[1:]
    for event, after in zip(_LINES[0], line[1:], strict=True)
]


def transfer(state: TransferState) -> Transfer:
    nobody = cast(Queue, None)
    return Transfer(nobody, nobody, 1, 5, None, None, state)


def steps() -> list[tuple[TransferState, Event, TransferState, TransferEffect]]:
    return [(state, event, *after) for (state, event), after in NEXT.items()]


@pytest.mark.parametrize(("state", "event", "after"), CELLS)
def test_each_state_knows_what_follows_each_event(state: str, event: str, after: str) -> None:
    moving = transfer(TransferState[state])
    if after == "-":
        with pytest.raises(KeyError):
            moving.step(Event[event])
        assert moving.state is TransferState[state]
    else:
        moving.step(Event[event])
        assert moving.state is TransferState[after]


def test_the_spec_names_each_state_and_each_event() -> None:
    assert {state for state, _, _ in CELLS} == {state.name for state in TransferState}
    assert {event for _, event, _ in CELLS} == {event.name for event in Event}
    assert len(CELLS) == len(TransferState) * len(Event)


def test_the_original_ends_only_once_the_copy_is_on_disk() -> None:
    ends = [step[:2] for step in steps() if step[3] is TransferEffect.END_ORIGINAL]
    assert ends == [(TransferState.COPYING, Event.COPY_STORED)]


def test_an_origin_is_open_until_the_original_is_gone_from_the_disk() -> None:
    closed = {event for _, event, _, effect in steps() if effect is TransferEffect.CLOSE_ORIGIN}
    assert closed == {Event.END_STORED, Event.SOURCE_GONE}
    assert all(
        (after is TransferState.SETTLED) == (effect is TransferEffect.CLOSE_ORIGIN)
        for _, _, after, effect in steps()
    )


def test_the_original_returns_only_if_no_client_can_get_the_copy() -> None:
    returned = [each for each in steps() if each[3] is TransferEffect.RETURN_ORIGINAL]
    assert returned == [
        (
            TransferState.STRANDED,
            Event.TARGET_GONE,
            TransferState.RETURNED,
            TransferEffect.RETURN_ORIGINAL,
        )
    ]
    assert {event for _, event, after, _ in steps() if after is TransferState.STRANDED} == {
        Event.COPY_LOST
    }


def test_a_client_s_request_ends_at_a_failed_journal_and_at_no_deleted_queue() -> None:
    given_up = {event for _, event, _, effect in steps() if effect is TransferEffect.GIVE_UP}
    assert given_up == {Event.COPY_LOST, Event.SOURCE_FAILED}


def test_every_transfer_can_come_to_an_end() -> None:
    ends = set(OVER)
    for _ in TransferState:
        ends |= {state for state, _, after, _ in steps() if after in ends}
    assert ends == set(TransferState)


# -- news of a log ------------------------------------------------------------------------------


def queue(is_child: bool = False, **facts: Any) -> Any:
    """A queue with these facts; a child's files are its parent's."""
    log = SimpleNamespace(failure=facts.pop("failure", None))
    made = SimpleNamespace(
        deleted=False, is_going=False, is_stuck=False, is_gone=False, stays=False, log=log
    )
    made.__dict__.update(facts)
    made.files = queue(failure=log.failure) if is_child else made
    return made


GOING: Final = {"deleted": True, "is_going": True}
CLOSED: Final = {**GOING, "is_stuck": True}


@pytest.mark.parametrize(
    ("source", "event"),
    [
        ({}, Event.COPY_STORED),
        ({"failure": "Input/output error"}, Event.SOURCE_FAILED),
        (GOING, Event.SOURCE_DELETED),
        ({"deleted": True}, Event.SOURCE_DELETED),  # a tombstone
        ({"deleted": True, "is_child": True}, Event.SOURCE_DELETED),
        (CLOSED, Event.SOURCE_CLOSED),
        ({**CLOSED, "stays": True}, Event.SOURCE_STAYS),
        ({**CLOSED, "is_gone": True}, Event.SOURCE_GONE),
    ],
)
def test_a_stored_copy_brings_news_of_its_source(source: dict[str, Any], event: Event) -> None:
    moving = Transfer(queue(**source), queue(), 1, 5, None)
    assert moving.news(is_on_disk=True) is event
    assert moving.news(is_on_disk=False) is Event.COPY_LOST
    assert (TransferState.COPYING, event) in NEXT


@pytest.mark.parametrize(
    ("source", "event"),
    [
        ({"failure": "Input/output error"}, Event.SOURCE_FAILED),
        ({"failure": "Input/output error", "deleted": True, "is_child": True}, Event.SOURCE_FAILED),
        (CLOSED, Event.SOURCE_CLOSED),
        ({**CLOSED, "stays": True}, Event.SOURCE_STAYS),
        ({**CLOSED, "is_gone": True}, Event.SOURCE_GONE),
    ],
)
def test_an_end_that_is_not_stored_rests_on_its_source(
    source: dict[str, Any], event: Event
) -> None:
    moving = Transfer(queue(**source), queue(), 1, 5, None, None, TransferState.LEFT)
    assert moving.news(is_on_disk=False) is event
    assert moving.news(is_on_disk=True) is Event.END_STORED
    assert (TransferState.LEFT, event) in NEXT


def test_a_transfer_waits_for_a_log_or_for_the_files_that_finish_it() -> None:
    source, target = queue(is_child=True), queue(is_child=True)
    awaited = {
        state: Transfer(source, target, 1, 5, None, None, state).awaits
        for state in TransferState
        if state not in OVER
    }
    assert awaited == {
        TransferState.COPYING: target, TransferState.LEFT: source,
        TransferState.ORPHANED: source.files,
        TransferState.IN_DOUBT: source.files, TransferState.STRANDED: target.files,
    }  # fmt: skip
