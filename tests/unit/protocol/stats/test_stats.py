"""stats: Kestrel's names in Kestrel's order, each number from its owner, in slices."""

from __future__ import annotations

from journal.errors import JournalFailed
from kestrelpy.operations import QueueFacts
from tests.support.server_harness import ServerHarness

GLOBAL = (  # noqa: SIM905
    "uptime time version curr_items total_items bytes curr_connections total_connections cmd_get "
    "cmd_set cmd_peek get_hits get_misses bytes_read bytes_written queue_creates queue_deletes "
    "queue_expires server_id refused_noreply health http_port"
).split()
# The first names, in their order: new ones may stand between them.
KNOWN_OF_A_QUEUE = (  # noqa: SIM905
    "items bytes total_items logsize logsize_live logsize_done logsize_reserve expired_items "
    "mem_items mem_bytes age discarded waiters "
    "open_transactions transactions canceled_transactions total_flushes delayed leased dead "
    "redelivered lease_expired duplicates keys_in_flight keys_blocked closes_without_open gaps "
    "children unreadable paused failed state"
).split()
OF_A_QUEUE = QueueFacts._fields[:-1]  # without the reason


def stats(answer: bytes) -> list[tuple[str, str]]:
    """Return the lines of a reply; it must be complete."""
    *lines, end, nothing = answer.decode("ascii").split("\r\n")
    assert (end, nothing) == ("END", "")
    found = []
    for line in lines:
        word, key, value = line.split(" ", 2)
        assert word == "STAT"
        found.append((key, value))
    return found


def test_the_names_and_their_sequence() -> None:
    stage = ServerHarness()
    stage.say("a", b"set mail 0 0 1", b"x")
    stage.say("a", b"set jobs 0 0 1", b"x")

    found = stats(stage.say("a", b"stats"))

    assert [key for key, _ in found] == [
        *GLOBAL,
        *(f"queue_jobs_{key}" for key in OF_A_QUEUE),
        *(f"queue_mail_{key}" for key in OF_A_QUEUE),
    ]


def test_the_names_of_a_queue_stay_as_listed() -> None:
    assert [name for name in OF_A_QUEUE if name in KNOWN_OF_A_QUEUE] == KNOWN_OF_A_QUEUE


def test_the_numbers_of_the_server() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 5", b"hello")
    stage.say("a", b"set jobs 0 0 5", b"world")
    stage.say("a", b"set mail 0 0 1", b"x")
    stage.say("a", b"get jobs")
    stage.say("a", b"get jobs/peek")
    stage.say("a", b"get absent")
    stage.say("a", b"delete mail")
    stage.pass_time(2500)

    found = dict(stats(stage.say("a", b"stats")))

    expected = {
        "uptime": "2", "time": "1700000002", "version": "0.0.0", "curr_items": "1",
        "total_items": "2", "bytes": "5", "cmd_get": "2", "cmd_set": "3", "cmd_peek": "1",
        "get_hits": "2", "get_misses": "1", "queue_creates": "2", "queue_deletes": "1",
        "queue_expires": "0", "refused_noreply": "0",
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert found["server_id"] == stage.server_id != ""


def test_age_is_that_of_the_oldest_ready_item() -> None:
    stage = ServerHarness()
    for body in (b"1", b"2"):
        stage.say("a", b"set jobs 0 0 1", body)
        stage.pass_time(1000)

    def age() -> str:
        return dict(stats(stage.say("b", b"stats jobs")))["queue_jobs_age"]

    assert age() == "2000"
    stage.say("a", b"get jobs/open")
    assert age() == "1000"
    stage.say("a", b"get jobs/abort")
    assert age() == "2000"
    stage.say("a", b"get jobs")
    stage.say("a", b"get jobs")
    assert age() == "0"


def test_logsize_is_that_of_all_files_of_the_queue() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 1", b"x")

    found = dict(stats(stage.say("a", b"stats jobs")))

    queue = stage.broker.queues[b"jobs"]
    folder = stage.directory.folder(queue)
    sizes = [stage.disk.size(f"{folder}/{name}") for name in stage.disk.names(folder)]
    assert int(found["queue_jobs_logsize"]) == sum(sizes) > 0
    parts = [int(found[f"queue_jobs_logsize_{part}"]) for part in ("live", "done", "reserve")]
    assert sum(parts) == sum(sizes)
    assert all(parts)


def test_what_the_files_are_for_follows_the_items() -> None:
    stage = ServerHarness()
    stage.store(b"x" * 1000)

    def parts() -> list[int]:
        found = dict(stats(stage.say("a", b"stats jobs")))
        return [int(found[f"queue_jobs_logsize_{part}"]) for part in ("live", "done", "reserve")]

    live, done, reserve = parts()
    assert live >= 1000 > done
    stage.say("a", b"get jobs")
    assert parts()[0] == 0
    assert parts()[1] >= live + done
    assert parts()[2] < reserve


def test_a_full_disk_and_a_failed_journal_have_different_states_and_reasons() -> None:
    stage = ServerHarness()
    for name in (b"fine", b"full", b"bad"):
        stage.say("a", b"set %b 0 0 1" % name, b"x")
    queues = stage.broker.queues

    def figures() -> dict[str, str]:
        return dict(stats(stage.say("b", b"stats")))

    assert figures()["health"] == "ok"
    assert figures()["queue_fine_state"] == "ok"
    assert "queue_fine_reason" not in figures(), "nothing is wrong with it"
    queues[b"full"].log.no_room = "disk full: no room for the next segment (Quota\texceeded)"
    found = figures()
    assert found["health"] == "disk_full"
    assert (found["queue_full_state"], found["queue_full_failed"]) == ("disk_full", "0")
    assert found["queue_full_reason"] == "disk_full:_no_room_for_the_next_segment_(Quota_exceeded)"
    assert found["queue_fine_state"] == "ok"
    queues[b"bad"].log.failure = JournalFailed("/ü/1.segment: syncing failed: Input/output error")
    queues[b"bad"].log.no_room = "disk full"
    found = figures()
    assert found["health"] == "failed"
    assert (found["queue_bad_state"], found["queue_bad_failed"]) == ("failed", "1")
    assert found["queue_bad_reason"] == "/\\xfc/1.segment:_syncing_failed:_Input/output_error"
    assert found["queue_full_state"] == "disk_full"


def test_a_reason_is_always_one_short_word() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 1", b"x")
    stage.broker.queues[b"jobs"].log.failure = JournalFailed("a\r\n b" + "c" * 10_000)

    found = dict(stats(stage.say("b", b"stats jobs")))

    assert found["queue_jobs_reason"].startswith("a_bccc")
    assert len(found["queue_jobs_reason"]) == 300


def test_the_server_says_why_it_makes_no_new_queue_while_it_makes_none() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 1", b"x")
    stage.broker.no_new_queue = "disk full: no room for a new queue"

    found = dict(stats(stage.say("a", b"stats")))

    assert (found["health"], found["queue_jobs_state"]) == ("no_new_queue", "ok")
    assert found["health_reason"] == "disk_full:_no_room_for_a_new_queue"
    stage.broker.no_new_queue = ""
    found = dict(stats(stage.say("a", b"stats")))
    assert found["health"] == "ok"
    assert "health_reason" not in found


def test_many_queues_are_listed_in_slices_of_one_reply() -> None:
    stage = ServerHarness()
    stage.set_queue(durable=False)
    for n in range(450):
        stage.say("p", b"set q%03d 0 0 1" % n, b"x")
    conversation = stage.client("a").conversation

    conversation.feed(b"stats\r\nversion\r\n", stage.now_ms)
    pieces: list[bytes] = []
    while conversation.has_more:
        conversation.go_on(stage.now_ms)
        pieces.append(conversation.output())
    pieces.append(conversation.output())

    assert len(pieces) > 5
    assert max(map(len, pieces)) < 200_000
    answer, _, version = b"".join(pieces).rpartition(b"VERSION")
    assert version == b" 0.0.0\r\n"
    assert len(stats(answer)) == len(GLOBAL) + 450 * len(OF_A_QUEUE)


def test_a_queue_deleted_between_two_slices_is_left_out() -> None:
    stage = ServerHarness()
    stage.set_queue(durable=False)
    for n in range(150):
        stage.say("p", b"set q%03d 0 0 1" % n, b"x")
    client = stage.client("a")
    client.conversation.feed(b"stats\r\n", stage.now_ms)
    client.conversation.go_on(stage.now_ms)
    first = client.conversation.output()

    stage.say("p", b"delete q149")

    found = stats(first + client.take())
    assert not [key for key, _ in found if key.startswith("queue_q149")]
    assert [key for key, _ in found if key.startswith("queue_q148")]


def test_stats_of_open_items_name_the_holder_and_the_time_left() -> None:
    stage = ServerHarness()
    stage.set_queue(lease="none")
    stage.set_server(max_open_reads=600)
    for n in range(520):
        stage.say("p", b"set jobs 0 0 3", b"%03d" % n)
    for _ in range(520):
        stage.say("peer:7", b"get jobs/open")

    found = dict(stats(stage.say("b", b"stats jobs/open")))

    assert len(found) == 520 * 8
    assert found["queue_jobs_open_520_holder"] == "peer:7"
    assert found["queue_jobs_open_520_lease_left_ms"] == "-"
    assert found["queue_jobs_open_1_attempts"] == "0"
