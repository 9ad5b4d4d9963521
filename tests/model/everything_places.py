"""Where each setting, each verb and each change is drawn: by the machine of everything, by a narrow
machine, or by another test.

What the configuration and the parser know is looked up there; a new setting or verb that stands
nowhere here fails `test_everything_places.py`.

A machine that says that it draws something has met it over its seeds, or its own test fails.

One rule: what no machine draws has the name of the test that does, with the reason.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.config.settings import KNOWN
from kestrelpy.protocol.parse.meta import META
from kestrelpy.protocol.parse.parser import _PLAIN
from tests.model.everything_machine import RELOADS, VERBS, EverythingMachine
from tests.model.everything_rows import FACTORS
from tests.model.narrow import Narrow
from tests.model.test_ages_machine import AgesMachine
from tests.model.test_archive_machine import ArchiveMachine
from tests.model.test_ids_machine import IdsMachine
from tests.model.test_keys_machine import KeysMachine
from tests.model.test_sync_machine import SyncMachine
from tests.model.test_times_machine import SchedulesMachine

# Machines of a few settings each, measured by the test of their module.
NARROW: Final[tuple[type[Narrow], ...]] = (
    AgesMachine, ArchiveMachine, IdsMachine, KeysMachine, SchedulesMachine, SyncMachine,
)  # fmt: skip
# By setting: the test that draws it, and the reason why no machine does.
SETTINGS_ELSEWHERE: Final = {
    "sync_in_turn": (
        "tests/unit/server/test_turn.py"
        "::test_with_sync_in_turn_no_thread_syncs_and_stored_waits_all_the_same",
        "it says on which thread, and the machines have none",
    ),
    "sliced": (
        "tests/process/router/test_sliced.py"
        "::test_killed_slices_lose_nothing_and_keep_the_order_of_keys",
        "it concerns several slices, and the machines have one server",
    ),
}  # fmt: skip
SCHEDULES_ELSEWHERE: Final[dict[str, tuple[str, str]]] = {}
DRAWN_OF_SCHEDULES: Final = ("cron", "queue", "body", "catch_up")

# Changes that are no setting by themselves: the machine that makes them, and the effect that it
# counts. A schedule whose queue is a child is not drawn: the configuration refuses it, by
# tests/unit/config/test_schedules.py::test_a_child_is_no_queue_of_a_schedule.
CHANGES: Final[dict[str, tuple[type, str]]] = {
    "a schedule changes its queue over a restart": (SchedulesMachine, "queue over a restart"),
    "a schedule changes its queue by a reload": (SchedulesMachine, "queue by a reload"),
    "a schedule changes its line over a restart": (SchedulesMachine, "line over a restart"),
    "a schedule is left out for a while": (SchedulesMachine, "left out"),
    "a schedule puts into a queue whose child alone has items": (
        EverythingMachine, "scheduled / children=only"
    ),
    "a reload by the daemon's own way": (EverythingMachine, "reload"),
    "a queue in memory": (EverythingMachine, "durable=no"),
    "scopes of ids": (EverythingMachine, "scope"),
    "retain by size": (EverythingMachine, "retain=8KiB"),
    "dedupe changes by a reload": (IdsMachine, "reloaded"),
    "sync changes by a reload": (SyncMachine, "reloaded"),
    "max_queue_age changes by a reload": (AgesMachine, "reloaded"),
    "the archive changes by a reload": (ArchiveMachine, "reloaded"),
}  # fmt: skip

# The requests of the machine, by the first word of a line.
ASKED: Final = frozenset((
    "set", "add", "cas", "replace", "get", "gets", "delete", "touch", "flush", "move", "redrive",
    "retry", "pause", "resume",
))  # fmt: skip
_MOVES: Final = (
    "tests/process/router/test_moves.py::"
    "test_each_item_is_once_when_slices_are_killed_while_items_move"
)
_SCENE: Final = "tests/scenario/test_transcripts.py::test_the_conversation_is_as_written"
_LOOKS: Final = "it changes nothing"
VERBS_ELSEWHERE: Final = {
    "monitor": ("tests/scenario/monitor.txt::a batch is opened and confirmed",
                "each item of it is an open of its own"),
    "confirm": ("tests/scenario/monitor.txt::a batch is opened and confirmed",
                "each item of it is a close of its own"),
    "flush_all": ("tests/unit/operations/test_modes.py::test_flush_all_stops_between_two_queues",
                  "a flush of each queue"),
    "flush_expired": ("tests/unit/operations/test_modes.py::test_a_sweep_stops",
                      "what expires is looked for all the time"),
    "flush_all_expired": ("tests/unit/operations/test_modes.py::test_a_sweep_stops",
                          "what expires is looked for all the time"),
    "acknowledge": ("tests/unit/server/journals/test_read_back.py"
                    "::test_a_loss_that_was_acknowledged_is_none_after_a_kill_without_a_snapshot",
                    "nothing is damaged"),
    "status": ("tests/unit/server/test_changes_at_an_event.py"
               "::test_a_change_comes_before_a_request_or_after_it", "it refuses everything"),
    "reload": ("tests/unit/server/test_changes_at_an_event.py"
               "::test_a_change_comes_before_a_request_or_after_it",
               "the machine reloads by the daemon's own way, without the verb"),
    "stats": ("tests/model/test_everything_machine.py"
              "::test_every_setting_and_every_verb_keeps_its_promise_beside_every_other",
              "it is what the machine looks with, after each walk"),
    "dump_stats": (_SCENE, _LOOKS),
    "dump_config": ("tests/scenario/monitor.txt::dump_config names the settings", _LOOKS),
    "version": (_SCENE, _LOOKS),
    "verbosity": (_SCENE, _LOOKS),
    "mn": (_SCENE, _LOOKS),
    "client": (_SCENE, "routers alone say it"),
    "unwait": (_SCENE, "routers alone say it"),
    "mail": (_MOVES, "slices alone say it, to each other"),
    "shutdown": (_SCENE, "it ends the process"),
    "quit": (_SCENE, "it is a hang-up"),
    **dict.fromkeys(
        ("mg", "md", "ma", "ms"),
        (_SCENE, "another form of the same verbs"),
    ),
}  # fmt: skip


def verbs() -> set[str]:
    """Every verb that the parser knows."""
    plain = {each.decode() for each in (*_PLAIN, *META)}
    named = "set add cas replace get gets delete touch monitor confirm ms"  # each has its own form
    return plain | {*named.split()}


def settings_drawn() -> set[str]:
    """Every setting of a queue that some row or some reload of a machine has."""
    rows = {key for values in FACTORS.values() for each in values.values() for key in each}
    rows |= {str(each[0]) for each in RELOADS} | {"fanout_only"}  # by `children=only`
    return rows | (narrow_settings() & settings())


def schedules_drawn() -> set[str]:
    """Every setting of a schedule that a machine draws."""
    return {*DRAWN_OF_SCHEDULES} | (narrow_settings() & {*KNOWN["schedules"]})


def narrow_settings() -> set[str]:
    """Every setting that a narrow machine draws."""
    return {name for machine in NARROW for name in machine.draws}


def met_by(machine: type) -> set[str]:
    """Return what a machine has to meet: its test fails if it does not."""
    if issubclass(machine, Narrow):
        return {*machine.effects}
    values = {f"{name}={value}" for name, each in FACTORS.items() for value in each}
    pairs = {f"{verb} / {value}" for verb in VERBS for value in values}
    return {*VERBS, *values, *pairs}


def settings() -> set[str]:
    """Every setting of a queue."""
    return {*KNOWN["queue_defaults"]}
