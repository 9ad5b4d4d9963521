"""Rules that hold in several variants, and for each variant the test that covers it.

A test of one variant says nothing about the others: they have code of their own, and a mistake in
the second variant of a tested rule is easily missed.

    RULES["an answer waits for what it rests on"]["a duplicate over HTTP"] = "tests/...::test_..."

One rule: a cell names a test that is there, or says `none:` and why there is no such variant.
"""

from __future__ import annotations

from itertools import product
from typing import Final

NONE: Final = "none: "
_CORE: Final = "tests/unit/core"
_SCENES: Final = "tests/scenario"
_HTTP: Final = "tests/unit/http"
_EVENTS: Final = (
    "tests/unit/server/test_changes_at_an_event.py"
    "::test_a_change_comes_before_a_request_or_after_it"
)
_WAITS: Final = f"{_HTTP}/test_changes_at_a_wait.py"
_MODES: Final = "tests/unit/operations/test_modes.py"
_DISK: Final = f"{_HTTP}/test_answers_of_the_disk.py"
_EVENT: Final = (
    f"{_HTTP}/test_streams.py::test_an_answer_about_an_event_waits_until_that_is_on_disk"
)
_FIELDS: Final = "tests/unit/operations/test_fields_of_items.py"
_RIGHTS: Final = "tests/unit/protocol/test_rights_of_names.py"
_TARGETS: Final = "tests/unit/server/test_target_rights.py"
_DEATHS: Final = f"{_CORE}/subscription/test_ways_to_die.py"
_CLOCKS: Final = f"{_CORE}/test_durations_and_dates.py"
_IDLE: Final = f"{_CORE}/registry/test_idle_children.py"
_MODELS: Final = "tests/model"
_SYNC: Final = (
    f"{_MODELS}/test_sync_machine.py"
    "::test_an_answer_waits_for_what_it_says_and_a_power_cut_takes_nothing_of_that"
)
_IDS: Final = (
    f"{_MODELS}/test_ids_machine.py::test_each_id_is_stored_once_and_a_mistake_is_reported"
)
_AGES: Final = (
    f"{_MODELS}/test_ages_machine.py"
    "::test_children_come_by_a_mention_and_go_when_nobody_uses_them"
)
_TIMES: Final = (
    f"{_MODELS}/test_times_machine.py::test_each_time_is_put_once_whatever_changes"
)
_STATES: Final = (
    "ready", "blocked", "delayed", "given back late", "dead", "lent", "lent by token",
)  # fmt: skip
Rule = dict[tuple[str, ...], str]

# The variants of each rule: every combination of these has its cell.
VARIANTS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "an answer waits for what it rests on": (
        ("stored", "duplicate", "refused"), ("memcache", "HTTP", "streams", "Zaqar"),
    ),
    "no client is handed an item when nothing is handed out": (
        ("asks", "waits"), ("connection", "token", "Zaqar"),
    ),
    "a user without the right is refused": (
        ("before", "meanwhile"), ("memcache", "HTTP", "Zaqar"),
    ),
    "long work stops when the mode changes": (
        ("redrive", "move", "flush of all", "sweep", "batch of messages"), ("memcache", "HTTP"),
    ),
    "what is given back is first again": (
        ("connection", "token"), ("hang-up", "deadline", "restart"),
    ),
    "a flush takes it": (("ready", "delayed", "leased", "dead", "blocked"), ("queue", "child")),
    "it comes when its delay is over": (
        ("put", "given back"), ("queue", "child"), ("running", "restarted"),
    ),
    "the life of what moves by itself": (("dead", "expired"), ("without age", "with age")),
    "what expires": (("ready", "leased", "dead"), ("memory", "disk")),
    "an id that was seen stores nothing": (
        ("plain", "same body", "scope"), ("running", "restarted"),
    ),
    "a field of an item is the same by every door": (
        _STATES, ("stats", "full value", "HTTP", "HTTP list"), ("queue", "child"),
    ),
    "an item is listed with the marker that it keeps": (
        ("leased", "dead", "delayed"), ("from memory", "from disk"), ("running", "restarted"),
    ),
    "each name of a request has its right": (
        ("queue", "child", "second name", "each of an alias", "called as a route"),
        ("memcache", "HTTP", "Zaqar"),
    ),
    "a setting that names a queue needs a right there": (
        ("dead_letter_to", "expire_to"), ("declared", "after a reload", "after a start"),
    ),
    "an item dies": (
        ("buried", "given back", "hang-up", "deadline"), ("connection", "token"),
        ("queue", "child"),
    ),
    "what comes back waits for its delay": (
        ("given back", "hang-up", "deadline"), ("connection", "token"), ("queue", "child"),
    ),
    "a clock that is set": (
        ("delay", "delay of a give-back", "retry", "lease by token", "date", "expiry", "max_age",
         "wait"),
        ("queue", "child"),
    ),
    "what an answer waits for follows the setting": (
        ("put", "duplicate", "flush", "first mention", "get", "open by token", "close", "abort",
         "touch", "wait"),
        ("sync", "confirms"),
    ),
    "a reload changes it": (
        ("dedupe", "max_item_size", "sync", "confirms", "max_queue_age", "fanout_create",
         "archive_to", "queue of a schedule", "line of a schedule", "zone of a schedule"),
        ("while it runs",),
    ),
    "a queue that would refuse an item is not made for it": (
        ("move", "redrive", "dead_letter_to", "expire_to"), ("queue", "child"),
    ),
    "a child is in use": (
        ("asked", "waiter", "lease", "pause"), ("memcache", "other doors"),
    ),
}  # fmt: skip

RULES: Final[dict[str, Rule]] = {
    "an answer waits for what it rests on": {
        ("stored", "memcache"): f"{_SCENES}/durable.txt::STORED is said after the sync",
        ("duplicate", "memcache"):
            f"{_SCENES}/once.txt::the answer to a duplicate waits for the item that it rests on",
        ("refused", "memcache"): f"{_SCENES}/storing.txt::NOT_STORED of a full queue waits",
        ("stored", "HTTP"): f"{_DISK}::test_an_answer_about_an_item",
        ("duplicate", "HTTP"): f"{_DISK}::test_an_answer_about_an_item",
        ("refused", "HTTP"): f"{_DISK}::test_an_answer_about_an_item",
        ("stored", "streams"): _EVENT,
        ("duplicate", "streams"): _EVENT,
        ("refused", "streams"): _EVENT,
        ("stored", "Zaqar"): f"{_DISK}::test_an_answer_about_a_message",
        ("duplicate", "Zaqar"): f"{NONE}its messages have no ids of their clients",
        ("refused", "Zaqar"): f"{_DISK}::test_an_answer_about_a_message",
    },
    "no client is handed an item when nothing is handed out": {
        ("asks", "connection"): _EVENTS,
        ("waits", "connection"):
            f"{_MODES}::test_who_waits_for_an_item_is_refused_when_nothing_is_handed_out",
        ("asks", "token"): _EVENTS,
        ("waits", "token"): f"{_MODES}::test_who_waits_over_http_is_refused",
        ("asks", "Zaqar"):
            f"{_HTTP}/zaqar/test_codes.py::test_a_busy_server_is_503_and_nothing_is_stored",
        ("waits", "Zaqar"): f"{_MODES}::test_a_claim_that_waits_is_refused",
    },
    "a user without the right is refused": {
        ("before", "memcache"):
            "tests/unit/protocol/test_rights.py::test_each_command_needs_a_role_in_its_queue",
        ("meanwhile", "memcache"): _EVENTS,
        ("before", "HTTP"):
            f"{_HTTP}/test_access.py::test_each_route_needs_a_role_and_changes_need_more_than_read",
        ("meanwhile", "HTTP"):
            f"{_WAITS}::test_a_user_loses_the_rights_at_any_wait_of_a_request",
        ("before", "Zaqar"): f"{_HTTP}/test_access.py::test_no_route_answers_a_stranger",
        ("meanwhile", "Zaqar"):
            f"{_WAITS}::test_a_user_loses_the_rights_at_any_wait_of_a_request",
    },
    "long work stops when the mode changes": {
        ("redrive", "memcache"): f"{_MODES}::test_a_redrive_stops",
        ("move", "memcache"): f"{_MODES}::test_a_move_stops",
        ("flush of all", "memcache"): f"{_MODES}::test_flush_all_stops_between_two_queues",
        ("sweep", "memcache"): f"{_MODES}::test_a_sweep_stops",
        ("batch of messages", "memcache"): f"{NONE}each set is a request of its own",
        ("redrive", "HTTP"):
            f"{_HTTP}/admin/test_changes_in_a_job.py::test_a_job_ends_with_the_batch_it_has_begun",
        ("move", "HTTP"):
            f"{_HTTP}/admin/test_changes_in_a_job.py::test_a_job_ends_with_the_batch_it_has_begun",
        ("flush of all", "HTTP"): f"{NONE}a flush is of one queue there",
        ("sweep", "HTTP"): f"{NONE}nobody sweeps there",
        ("batch of messages", "HTTP"):
            f"{_HTTP}/zaqar/test_messages.py"
            "::test_a_long_batch_stops_when_nothing_is_stored_any_more",
    },
    "what is given back is first again": {
        ("connection", "hang-up"):
            f"{_CORE}/subscription/test_subscription.py"
            "::test_a_hang_up_gives_everything_back_in_its_original_sequence",
        ("connection", "deadline"): f"{_SCENES}/leases.txt::the end of a lease serves a waiting",
        ("connection", "restart"): f"{_SCENES}/pausing.txt::an item given back to a paused queue",
        ("token", "hang-up"): f"{NONE}a lease by token outlives its connection",
        ("token", "deadline"):
            f"{_CORE}/subscription/test_token_leases.py"
            "::test_a_lease_over_while_nobody_ran_ends_at_the_first_tick_and_counts_an_attempt",
        ("token", "restart"):
            f"{_SCENES}/tokens.txt::after a restart a lease given back is first again",
    },
    "a flush takes it": {
        ("ready", "queue"):
            f"{_CORE}/subscription/test_subscription.py"
            "::test_a_flush_empties_what_is_ready_and_keeps_what_is_open_or_dead",
        ("delayed", "queue"): f"{_SCENES}/delays.txt::limits count delayed items; add finds them",
        ("leased", "queue"): f"{_SCENES}/tokens.txt::flush spares leases by token",
        ("dead", "queue"):
            f"{_CORE}/subscription/test_subscription.py"
            "::test_a_flush_empties_what_is_ready_and_keeps_what_is_open_or_dead",
        ("blocked", "queue"):
            f"{_CORE}/subscription/test_key_gate.py"
            "::test_a_flush_takes_what_waits_for_its_key_and_leaves_what_is_leased",
        **dict.fromkeys(
            product(("ready", "delayed", "leased", "dead", "blocked"), ("child",)),
            f"{_CORE}/fanout/test_flush_of_a_child.py::test_a_flush_of_a_child",
        ),
    },
    "it comes when its delay is over": {
        ("put", "queue", "running"): f"{_SCENES}/delays.txt::a delayed item is invisible until",
        ("put", "queue", "restarted"):
            f"{_SCENES}/delays.txt::delayed items are there after a kill",
        ("put", "child", "running"):
            f"{_SCENES}/fanout.txt::a delayed item comes to every subscription when it is due",
        **dict.fromkeys(
            (("put", "child", "restarted"), ("given back", "child", "running"),
             ("given back", "child", "restarted"), ("given back", "queue", "restarted")),
            f"{_CORE}/fanout/test_flush_of_a_child.py::test_a_delay_is_over",
        ),
        ("given back", "queue", "running"):
            f"{_SCENES}/delays.txt::given back with a delay it comes when that is over",
    },
    "the life of what moves by itself": {
        ("dead", "without age"):
            f"{_CORE}/transfer/test_transfers.py"
            "::test_what_expires_goes_to_its_own_queue_and_what_dies_to_another",
        ("expired", "without age"):
            f"{_CORE}/transfer/test_transfers.py"
            "::test_what_expired_goes_on_and_stays_there_without_its_expiry",
        ("dead", "with age"):
            f"{_CORE}/transfer/test_transfers.py"
            "::test_a_dead_letter_stays_in_its_queue_as_long_as_is_set",
        ("expired", "with age"):
            f"{_CORE}/transfer/test_transfers.py"
            "::test_the_age_of_dead_letters_is_not_that_of_expired_items",
    },
    "what expires": {
        ("ready", "memory"):
            f"{_CORE}/subscription/test_subscription.py"
            "::test_an_expired_item_is_not_handed_out_even_if_nobody_cleared_it_away",
        ("ready", "disk"):
            f"{_CORE}/subscription/test_ready_items.py"
            "::test_what_expires_behind_the_frontier_goes_once_something_in_memory_does",
        ("leased", "memory"):
            f"{_CORE}/subscription/test_subscription.py"
            "::test_an_open_item_does_not_expire_but_at_give_back_it_may",
        ("leased", "disk"):
            f"{_CORE}/subscription/test_expiry_sweep.py"
            "::test_a_leased_item_does_not_expire_and_ends_when_it_is_given_back",
        ("dead", "memory"):
            f"{_CORE}/subscription/test_expiry_sweep.py::test_a_dead_letter_does_not_expire",
        ("dead", "disk"):
            f"{_CORE}/transfer/test_redriven.py::test_a_dead_letter_does_not_expire_over_a_restart",
    },
    "an id that was seen stores nothing": {
        **dict.fromkeys(
            product(("plain", "same body", "scope"), ("running", "restarted")),
            f"{_CORE}/queue/test_seen_ids.py::test_an_id_that_was_seen_stores_nothing",
        ),
    },
    "a field of an item is the same by every door": {
        **dict.fromkeys(
            product(_STATES, ("stats",), ("queue", "child")),
            f"{_FIELDS}::test_each_field_of_each_item_is_right",
        ),
        **dict.fromkeys(
            product(_STATES, ("full value",), ("queue", "child")),
            f"{_FIELDS}::test_a_full_value_has_the_same_fields",
        ),
        **dict.fromkeys(
            product(("delayed",), ("full value",), ("queue", "child")),
            f"{NONE}it has no marker yet, so no observer is shown it",
        ),
        **dict.fromkeys(
            product(_STATES, ("HTTP", "HTTP list"), ("queue", "child")),
            f"{_FIELDS}::test_http_shows_the_same_fields_as_the_wire",
        ),
    },
    "an item is listed with the marker that it keeps": dict.fromkeys(
        product(
            ("leased", "dead", "delayed"), ("from memory", "from disk"), ("running", "restarted")
        ),
        "tests/unit/operations/lists/test_items.py"
        "::test_an_item_is_listed_with_the_marker_that_it_keeps",
    ),
    "each name of a request has its right": {
        **dict.fromkeys(
            product(
                ("queue", "child", "second name", "each of an alias", "called as a route"),
                ("memcache",),
            ),
            f"{_RIGHTS}::test_each_name_of_a_line_has_its_right",
        ),
        **dict.fromkeys(
            product(("queue", "second name", "called as a route"), ("HTTP",)),
            f"{_RIGHTS}::test_a_queue_that_is_called_as_a_route_is_a_queue",
        ),
        ("child", "HTTP"): f"{_RIGHTS}::test_a_queue_that_is_called_as_a_route_is_a_queue",
        ("each of an alias", "HTTP"): f"{NONE}an alias is refused there",
        **dict.fromkeys(
            product(("queue", "child", "called as a route"), ("Zaqar",)),
            f"{_RIGHTS}::test_a_queue_that_is_called_as_a_route_is_a_queue",
        ),
        ("second name", "Zaqar"): f"{NONE}no request there names two queues",
        ("each of an alias", "Zaqar"): f"{NONE}an alias is refused there",
    },
    "a setting that names a queue needs a right there": {
        **dict.fromkeys(
            product(("dead_letter_to", "expire_to"), ("declared",)),
            f"{_TARGETS}::test_a_target_needs_the_right_to_write_it",
        ),
        **dict.fromkeys(
            product(("dead_letter_to", "expire_to"), ("after a reload",)),
            f"{_TARGETS}"
            "::test_a_target_ends_with_the_rights_of_who_declared_it_and_comes_back_with_them",
        ),
        **dict.fromkeys(
            product(("dead_letter_to", "expire_to"), ("after a start",)),
            f"{_TARGETS}"
            "::test_a_target_from_before_the_start_needs_some_user_who_may_declare_it",
        ),
    },
    "an item dies": {
        **dict.fromkeys(
            product(
                ("buried", "given back", "hang-up", "deadline"), ("connection", "token"),
                ("queue", "child"),
            ),
            f"{_DEATHS}::test_an_item_dies",
        ),
        **dict.fromkeys(
            product(("hang-up",), ("token",), ("queue", "child")),
            f"{NONE}a lease by token outlives its connection",
        ),
    },
    "what comes back waits for its delay": {
        **dict.fromkeys(
            product(
                ("given back", "hang-up", "deadline"), ("connection", "token"), ("queue", "child")
            ),
            f"{_DEATHS}::test_what_comes_back_waits_for_the_retry_delay",
        ),
        **dict.fromkeys(
            product(("hang-up",), ("token",), ("queue", "child")),
            f"{NONE}a lease by token outlives its connection",
        ),
    },
    "a clock that is set": {
        **dict.fromkeys(
            product(
                ("delay", "delay of a give-back", "retry", "lease by token"), ("queue", "child")
            ),
            f"{_CLOCKS}::test_a_duration_does_not_follow_the_clock",
        ),
        **dict.fromkeys(
            product(("date",), ("queue", "child")),
            f"{_CLOCKS}::test_a_date_follows_the_clock",
        ),
        **dict.fromkeys(
            product(("expiry", "max_age"), ("queue", "child")),
            f"{_CLOCKS}::test_a_life_follows_the_clock",
        ),
        **dict.fromkeys(
            product(("wait",), ("queue", "child")),
            f"{_CLOCKS}::test_a_wait_does_not_follow_the_clock",
        ),
    },
    "what an answer waits for follows the setting": {
        **dict.fromkeys(
            product(
                ("put", "duplicate", "flush", "first mention", "get", "open by token", "close",
                 "abort", "touch"),
                ("sync", "confirms"),
            ),
            _SYNC,
        ),
        **dict.fromkeys(
            product(("put", "duplicate", "flush", "first mention"), ("confirms",)),
            f"{NONE}it ends no lease",
        ),
        ("wait", "sync"):
            "tests/unit/server/test_turn.py"
            "::test_an_item_is_not_shown_before_its_sync_has_finished",
        ("wait", "confirms"):
            "tests/unit/protocol/verbs/test_get_wait_synced.py"
            "::test_with_synced_confirms_a_get_that_waited_is_answered_when_it_is_synced",
    },
    "a reload changes it": {
        **dict.fromkeys(product(("dedupe", "max_item_size"), ("while it runs",)), _IDS),
        **dict.fromkeys(product(("sync", "confirms"), ("while it runs",)), _SYNC),
        **dict.fromkeys(product(("max_queue_age", "fanout_create"), ("while it runs",)), _AGES),
        ("archive_to", "while it runs"):
            f"{_MODELS}/test_archive_machine.py"
            "::test_what_was_stored_stays_in_the_journal_or_in_the_archive",
        **dict.fromkeys(
            product(
                ("queue of a schedule", "line of a schedule", "zone of a schedule"),
                ("while it runs",),
            ),
            _TIMES,
        ),
    },
    "a queue that would refuse an item is not made for it": dict.fromkeys(
        product(("move", "redrive", "dead_letter_to", "expire_to"), ("queue", "child")),
        f"{_CORE}/transfer/test_new_targets.py::test_a_queue_that_would_refuse_it_is_not_made",
    ),
    "a child is in use": {
        ("asked", "memcache"): f"{_IDLE}::test_a_child_that_a_client_asks_now_and_then_stays",
        ("asked", "other doors"): f"{_IDLE}::test_a_child_that_other_doors_ask_now_and_then_stays",
        ("waiter", "memcache"): f"{_IDLE}::test_a_child_with_a_waiter_or_a_lease_stays",
        ("waiter", "other doors"): f"{NONE}all waits of all doors stand in one list",
        ("lease", "memcache"): f"{_IDLE}::test_a_child_with_a_waiter_or_a_lease_stays",
        ("lease", "other doors"): f"{NONE}all leases of all doors stand in one list",
        ("pause", "memcache"): _AGES,
        ("pause", "other doors"): f"{NONE}a pause is the child's, whoever ordered it",
    },
}  # fmt: skip
