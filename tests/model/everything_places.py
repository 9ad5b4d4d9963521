"""Where each setting and each verb is drawn: by the machine of everything, or by another test.

What the configuration and the parser know is looked up there; a new setting or verb that stands
nowhere here fails `test_everything_places.py`.

One rule: what the machine does not draw has the name of the test that does, with the reason.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.config.settings import KNOWN
from kestrelpy.protocol.parse.meta import META
from kestrelpy.protocol.parse.parser import _PLAIN
from tests.model.everything_machine import RELOADS
from tests.model.everything_rows import FACTORS

_JSON: Final = "bodies would have to be JSON"
# By setting: who draws it, and why the machine does not.
SETTINGS_ELSEWHERE: Final = {
    "max_item_size": (
        "tests/unit/protocol/test_runs.py"
        "::test_requests_that_come_together_do_what_they_do_one_by_one",
        "it is a limit of one request, whatever else there is",
    ),
    "max_queue_age": (
        "tests/unit/core/test_crossings.py"
        "::test_an_empty_queue_that_remembers_ids_is_not_deleted_for_its_age",
        "each queue of the machine is used all the time",
    ),
    "sync": (
        "tests/unit/core/transfer/test_transfers_crash.py"
        "::test_a_life_of_moves_and_crashes_loses_nothing_and_doubles_nothing",
        "what a crash takes then, the spec does not say",
    ),
    "sync_in_turn": (
        "tests/unit/server/test_turn.py"
        "::test_with_sync_in_turn_no_thread_syncs_and_stored_waits_all_the_same",
        "it says on which thread, and the machine has none",
    ),
    "key_format": ("tests/scenario/keys.txt::a message that expires while it waits", _JSON),
    "key": ("tests/scenario/keys.txt::a message that expires while it waits", _JSON),
    "key_missing": ("tests/scenario/keys.txt::key_missing = free", _JSON),
    "dedupe": (
        "tests/unit/core/index/test_same_body.py"
        "::test_the_same_id_with_another_body_is_one_clear_error",
        "ids and bodies of the machine never differ",
    ),
    "fanout_create": (
        "tests/scenario/fanout.txt::fanout_create: naming a child need not make it",
        "the machine makes children at each moment",
    ),
    "archive_to": (
        "tests/process/wire/test_archive.py"
        "::test_what_was_stored_and_confirmed_can_be_read_in_the_archive",
        "it is about files that the server is done with",
    ),
}  # fmt: skip
SCHEDULES_ELSEWHERE: Final = {
    "timezone": (
        "tests/unit/test_cron.py::test_a_line_is_about_the_clocks_of_its_zone",
        "the machine runs for seconds",
    ),
}
DRAWN_OF_SCHEDULES: Final = ("cron", "queue", "body", "catch_up")

# What the machine asks for, as the first word of a line.
ASKED: Final = frozenset((
    "set", "add", "cas", "replace", "get", "gets", "delete", "touch", "flush", "move", "redrive",
    "retry", "pause", "resume",
))  # fmt: skip
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
    """Every setting of a queue that some row or some reload of the machine has."""
    rows = {key for values in FACTORS.values() for each in values.values() for key in each}
    return rows | {str(each[0]) for each in RELOADS} | {"fanout_only"}  # by `children=only`


def settings() -> set[str]:
    """Every setting of a queue."""
    return {*KNOWN["queue_defaults"]}
