"""Where two features meet: children, keys, delays, flushes, leases by token, and a restart."""

from __future__ import annotations

from tests.support.server_harness import ServerHarness


def value(queue: bytes, text: bytes) -> bytes:
    """Return the answer to a get of this item."""
    return b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (queue, len(text), text)


def figure(stage: ServerHarness, queue: bytes, name: bytes) -> bytes:
    """Return one figure of `stats`."""
    prefix = b"STAT queue_%b_%b " % (queue, name)
    lines = stage.say("bob", b"stats %b" % queue).splitlines()
    [line] = [line for line in lines if line.startswith(prefix)]
    return line.removeprefix(prefix)


def with_child(*bodies: bytes) -> ServerHarness:
    """A queue with the child `a`, and these items for both."""
    stage = ServerHarness()
    stage.say("eve", b"get jobs+a/peek")
    for text in bodies:
        assert stage.say("eve", b"set jobs 0 0 1", text) == b"STORED\r\n"
    return stage


def with_one_leased_at_most() -> ServerHarness:
    """Eve has item 1, bob waits for item 2."""
    stage = ServerHarness()
    stage.set_queue("jobs", max_leased=1)
    for text in (b"1", b"2"):
        stage.say("eve", b"set jobs 0 0 1", text)
    stage.say("eve", b"get jobs/open")
    stage.send("bob", b"get jobs/open/t=1m\r\n")
    assert stage.client("bob").take() == b""
    return stage


def put_off_with_a_key(stage: ServerHarness) -> None:
    """Item 1 has the key A and is given back for later; item 2 has the key as well."""
    for text in (b"1", b"2"):
        stage.say("eve", b"set jobs/key=A 0 0 1", text)
    stage.say("eve", b"get jobs/open", b"get jobs/abort/delay=10m")


# -- keys -----------------------------------------------------------------------------------


def test_after_a_kill_what_was_given_back_for_later_is_first_for_its_key() -> None:
    stage = ServerHarness()
    put_off_with_a_key(stage)

    stage.kill()

    assert stage.say("bob", b"get jobs") == b"END\r\n"
    stage.pass_time(600_001)
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"1")
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"2")


def test_after_a_flush_and_a_kill_the_key_of_what_was_put_off_is_free() -> None:
    stage = ServerHarness()
    put_off_with_a_key(stage)
    stage.say("eve", b"flush jobs")
    stage.say("eve", b"set jobs/key=A 0 0 1", b"3")

    stage.kill()

    assert stage.queue("jobs").reader.held_keys == {}
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"3")


def test_after_a_restart_the_key_of_a_lease_by_token_is_in_flight() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs/key=A 0 0 1", b"1")
    token = stage.say("eve", b"gets jobs/open/lease=1h").split()[4]

    stage.kill()

    assert figure(stage, b"jobs", b"keys_in_flight") == b"1"
    assert stage.say("bob", b"delete jobs/token=%b" % token) == b"DELETED\r\n"
    assert figure(stage, b"jobs", b"keys_in_flight") == b"0"


def test_what_waited_for_a_key_takes_no_memory_once_it_is_gone() -> None:
    stage = ServerHarness()
    for text in (b"1", b"2", b"3"):
        stage.say("eve", b"set jobs/key=A 0 0 1", text)
    keyed = stage.queue("jobs").reader.key_gate
    for text in (b"1", b"2", b"3"):
        assert stage.say("eve", b"get jobs/open") == value(b"jobs/open", text)
        assert stage.say("bob", b"get jobs") == b"END\r\n"  # the others are looked at, and wait
        assert stage.say("eve", b"get jobs/close") == b"END\r\n"
    assert keyed.whole == {}
    assert keyed.cost == 0


def test_an_upto_frees_the_memory_of_what_waited_for_a_key() -> None:
    stage = ServerHarness()
    for text in (b"1", b"2", b"3"):
        stage.say("eve", b"set jobs/key=A 0 0 1", text)
    keyed = stage.queue("jobs").reader.key_gate
    stage.say("eve", b"get jobs/open")
    assert stage.say("bob", b"get jobs") == b"END\r\n"
    assert keyed.cost > 0

    assert stage.say("bob", b"delete jobs/upto=3") == b"DELETED\r\n"

    assert keyed.whole == {}
    assert keyed.cost == 0


def test_a_child_matches_keys_as_its_queue_does_after_a_reload() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", key_match="pair")
    stage.say("eve", b"get jobs+a/peek")
    stage.set_queue("jobs", key_match="any")
    for key, text in ((b"A,B", b"1"), (b"B,C", b"2"), (b"D", b"3")):
        stage.say("eve", b"set jobs/key=%b 0 0 1" % key, text)

    assert stage.say("eve", b"get jobs+a/open") == value(b"jobs+a/open", b"1")
    assert stage.say("bob", b"get jobs+a") == value(b"jobs+a", b"3")


def test_the_body_of_what_was_leased_takes_no_memory_once_it_is_confirmed() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 5", b"12345")
    stage.say("eve", b"get jobs/open")
    assert figure(stage, b"jobs", b"mem_bytes") == b"5"

    stage.say("eve", b"get jobs/close")

    assert figure(stage, b"jobs", b"mem_bytes") == b"0"


# -- flushes and uptos ----------------------------------------------------------------------


def test_after_a_flush_of_what_was_delayed_the_queue_is_empty_for_an_add() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs/delay=10m 0 0 1", b"1")
    assert stage.say("bob", b"add jobs 0 0 1", b"2") == b"NOT_STORED\r\n"

    stage.say("eve", b"flush jobs")

    assert stage.say("bob", b"add jobs 0 0 1", b"3") == b"STORED\r\n"


def test_after_a_kill_a_token_that_an_upto_ended_names_nothing() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    token = stage.say("eve", b"gets jobs/open/lease=1h").split()[4]
    stage.say("bob", b"delete jobs/upto=1")

    stage.kill()

    assert stage.say("bob", b"delete jobs/token=%b" % token) == b"NOT_FOUND\r\n"
    assert figure(stage, b"jobs", b"leased") == b"0"
    assert stage.say("bob", b"add jobs 0 0 1", b"2") == b"STORED\r\n"


# -- children -------------------------------------------------------------------------------


def test_what_a_full_child_dropped_does_not_come_back_with_a_kill() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+a", max_items=1)
    for text in (b"1", b"2"):
        stage.say("eve", b"set jobs 0 0 1", text)

    stage.kill()

    assert figure(stage, b"jobs+a", b"items") == b"1"
    assert stage.say("bob", b"get jobs+a") == value(b"jobs+a", b"1")
    assert stage.say("bob", b"get jobs+a") == b"END\r\n"
    assert figure(stage, b"jobs", b"items") == b"2"


def test_the_total_of_a_child_counts_what_it_began_with_after_a_kill() -> None:
    stage = ServerHarness()
    for text in (b"1", b"2"):
        stage.say("eve", b"set jobs 0 0 1", text)
    stage.say("eve", b"get jobs+a/from=1/peek")
    stage.say("eve", b"set jobs 0 0 1", b"3")
    assert figure(stage, b"jobs+a", b"total_items") == b"3"

    stage.kill()

    assert figure(stage, b"jobs+a", b"total_items") == b"3"


def test_what_is_due_later_has_one_marker_in_all_readers_also_in_one_that_waits() -> None:
    stage = with_child()
    stage.send("bob", b"get jobs+a/open/t=1m\r\n")
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    stage.say("eve", b"set jobs 0 0 1", b"2")
    assert stage.client("bob").take() == value(b"jobs+a/open/t=1m", b"2")
    stage.pass_time(1001)

    for queue in (b"jobs", b"jobs+a"):
        shown = stage.say("eve", b"gets %b/peek/after=0/n=9" % queue).splitlines()
        shown = shown[:-1]  # END
        pairs = zip(shown[::2], shown[1::2], strict=True)
        markers = [(line.split()[4], text) for line, text in pairs]
        assert markers == [(b"2", b"2"), (b"3", b"1")], queue


def test_what_is_delayed_for_all_can_be_released_through_the_queue_itself() -> None:
    stage = with_child()
    stage.say("eve", b"set jobs/delay=10m 0 0 1", b"1")

    assert stage.say("eve", b"retry jobs 1") == b"OK\r\n"

    for queue in (b"jobs", b"jobs+a"):
        assert stage.say("bob", b"get %b" % queue) == value(queue, b"1")


def test_a_deleted_queue_stays_for_an_empty_child_and_goes_when_that_is_deleted() -> None:
    stage = with_child(b"1")
    stage.say("eve", b"delete jobs")
    assert len(stage.broker.tombstones) == 1

    stage.say("eve", b"flush jobs+a")
    stage.pass_time(10)
    assert len(stage.broker.tombstones) == 1
    stage.say("eve", b"delete jobs+a")
    stage.pass_time(10)
    stage.work()

    assert stage.broker.tombstones == []
    assert not [name for name in stage.disk.names("data") if name.startswith("jobs.")]


def test_a_deleted_queue_that_a_later_one_replaced_goes_when_its_child_is_flushed() -> None:
    """Older versions gave the next queue of the name a log of its own."""
    stage = with_child(b"1")
    stage.say("eve", b"delete jobs")
    stage.broker.tombstones[0].is_replaced = True

    stage.say("eve", b"flush jobs+a")
    stage.pass_time(10)

    assert stage.broker.tombstones == []
    assert not [name for name in stage.disk.names("data") if name.startswith("jobs.")]


def test_a_deleted_child_is_given_nothing_any_more() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", fanout_create=True)
    stage.say("eve", b"get jobs+a/peek")
    stage.send("bob", b"get jobs+a/t=1m\r\n")
    queue = stage.queue("jobs")
    assert [child.part for child in queue.eager] == [b"a"]

    stage.say("eve", b"delete jobs+a")

    assert not queue.eager
    assert stage.client("bob").take() == b"END\r\n"


# -- what somebody waits for ----------------------------------------------------------------


def test_an_upto_frees_the_keys_of_what_it_confirms() -> None:
    stage = ServerHarness()
    for text in (b"1", b"2"):
        stage.say("eve", b"set jobs/key=A 0 0 1", text)
    stage.say("eve", b"get jobs/open")
    assert stage.say("bob", b"get jobs") == b"END\r\n"

    stage.say("eve", b"delete jobs/upto=1")

    assert stage.say("bob", b"get jobs") == value(b"jobs", b"2")


def test_a_client_that_waits_is_served_when_an_upto_frees_a_lease() -> None:
    stage = with_one_leased_at_most()

    stage.say("ann", b"delete jobs/upto=1")

    assert stage.client("bob").take() == value(b"jobs/open/t=1m", b"2")


# -- markers and what is retained -----------------------------------------------------------


def test_what_was_delayed_and_died_has_the_marker_of_its_release() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    stage.say("eve", b"set jobs 0 0 1", b"2")
    stage.pass_time(1001)
    stage.say("eve", b"get jobs")
    stage.say("eve", b"get jobs/open", b"get jobs/abort/dead=why")

    for _ in range(2):
        shown = stage.say("bob", b"gets jobs/peek/after=0")
        assert shown == b"VALUE jobs/peek/after=0 0 1 3\r\n1\r\nEND\r\n"
        stage.kill()


def test_fanout_only_without_children_keeps_what_is_retained() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", fanout_only=True, retain="forever")
    stage.say("eve", b"set jobs 0 0 1", b"1")

    assert stage.say("bob", b"get jobs") == b"END\r\n"
    shown = stage.say("bob", b"gets jobs/peek/after=0")
    assert shown == b"VALUE jobs/peek/after=0 0 1 1\r\n1\r\nEND\r\n"


# -- ids ------------------------------------------------------------------------------------


def test_an_empty_queue_that_remembers_ids_is_not_deleted_for_its_age() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", max_queue_age="1s")
    stage.say("eve", b"set jobs/id=x 0 0 1", b"1")
    stage.say("eve", b"get jobs")

    stage.pass_time(60_000)

    assert stage.say("eve", b"add jobs/id=x 0 0 1", b"1") == b"NOT_STORED\r\n"


def test_an_id_that_is_repeated_through_an_alias_is_stored() -> None:
    stage = ServerHarness()
    stage.set_alias("both", ["one", "two"])
    assert stage.say("eve", b"set one/id=x 0 0 1", b"1") == b"STORED\r\n"

    for _ in range(2):
        assert stage.say("eve", b"set both/id=x 0 0 1", b"1") == b"STORED\r\n"

    for queue in (b"one", b"two"):
        assert figure(stage, queue, b"items") == b"1"


def test_an_id_that_is_repeated_is_answered_when_its_item_is_on_disk() -> None:
    for queue in (b"one", b"both"):
        stage = ServerHarness()
        stage.set_alias("both", ["one", "two"])
        stage.say("eve", b"set one 0 0 1", b"0")
        stage.hold_syncs()
        assert stage.say("eve", b"set %b/id=x 0 0 1" % queue, b"1") == b""
        assert stage.say("bob", b"set %b/id=x 0 0 1" % queue, b"1") == b""
        stage.go()
        stage.work()
        for who in ("eve", "bob"):
            assert stage.client(who).take() == b"STORED\r\n", queue


# -- what is deleted, or on its way ---------------------------------------------------------


def test_a_deleted_queue_gives_back_its_part_of_the_memory_of_all_queues() -> None:
    stage = ServerHarness()
    for _ in range(20):
        stage.say("eve", b"set jobs 0 0 100000", bytes(100_000))
    assert stage.broker.memory.taken > 0

    stage.say("eve", b"delete jobs")

    assert stage.broker.memory.taken == 0


def test_a_token_names_nothing_once_its_item_is_handed_on() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"set done 0 0 1", b"0")
    token = stage.say("eve", b"gets jobs/open/lease=1h").split()[4]
    stage.hold_syncs()
    stage.send("eve", b"set done/confirm=jobs:%b 0 0 1\r\n2\r\n" % token)

    assert stage.say("bob", b"delete jobs/token=%b" % token) == b"NOT_FOUND\r\n"
    stage.go()
    stage.work()

    assert stage.client("eve").take() == b"STORED\r\n"


def test_after_a_kill_nothing_is_leased_by_a_queue_that_was_deleted() -> None:
    stage = with_child(b"1")
    stage.say("eve", b"gets jobs/open/lease=1h")
    stage.say("eve", b"delete jobs")

    stage.kill()

    [remnant] = stage.broker.tombstones
    assert remnant.reader.leases.entries == {}
    assert stage.say("bob", b"get jobs+a") == value(b"jobs+a", b"1")


def test_an_observer_is_not_shown_what_was_set_for_a_child_alone() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", retain="forever")
    stage.say("eve", b"get jobs+a/peek")
    for queue, text in ((b"jobs", b"1"), (b"jobs+a", b"2"), (b"jobs", b"3")):
        stage.say("eve", b"set %b 0 0 1" % queue, text)

    for _ in range(2):
        shown = stage.say("bob", b"gets jobs/peek/after=0/n=9").splitlines()
        assert shown[1::2] == [b"1", b"3"]
        stage.kill()
