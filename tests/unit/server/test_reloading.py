"""A reload is taken whole and at one moment, and put in force for a few queues in each turn.

Promise: slices.
"""

from __future__ import annotations

import asyncio
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.cli import serve
from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.settings import AT_START, Config, ServerConfig
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import Queue
from kestrelpy.server.reloading import LATE_MAX, STEPS_MAX, Reload
from tests.support.guarded import certificate, user
from tests.support.running import ANSWER_SECONDS, running
from tests.support.server_harness import ServerHarness
from tests.support.steps import Work

COUNT = 2 * STEPS_MAX + 50


def stage_with(count: int) -> ServerHarness:
    stage = ServerHarness()
    for number in range(count):
        stage.broker.create(b"q%d" % number, stage.now_ms)
    stage.work()
    return stage


def reload_of(stage: ServerHarness, **settings: Any) -> Reload:
    """A reload that finds these defaults in the file."""
    return Reload(stage.policies, stage.broker, Config.model_validate({"queue_defaults": settings}))


def bounded(stage: ServerHarness) -> int:
    """Return how many queues have `max_items = 1`."""
    return sum(queue.policy.max_items == 1 for queue in stage.broker.queues.values())


def finish(stage: ServerHarness, reload: Reload) -> None:
    while not reload.go_on(stage.now_ms):
        stage.work()


def test_one_turn_puts_a_reload_in_force_for_a_bounded_number_of_queues() -> None:
    stage = stage_with(COUNT)
    reload = reload_of(stage, max_items=1)
    reload.check()
    assert bounded(stage) == 0
    assert reload.take()
    assert bounded(stage) == 0
    found = []
    while not reload.go_on(stage.now_ms):
        found.append(bounded(stage))
        assert stage.say("other", b"set q%d 0 0 1" % (COUNT - 1), b"x") == b"STORED\r\n"
    assert found == [STEPS_MAX, 2 * STEPS_MAX], "others are served between two of its turns"
    assert bounded(stage) == COUNT
    assert stage.say("other", b"set q%d 0 0 1" % (COUNT - 1), b"x") == b"NOT_STORED\r\n"


def test_a_queue_that_is_created_in_the_middle_of_a_reload_goes_by_the_new_one() -> None:
    stage = stage_with(COUNT)
    reload = reload_of(stage, max_items=1)
    reload.check()
    stage.say("a", b"set before 0 0 1", b"x")
    assert reload.take()
    assert not reload.go_on(stage.now_ms)
    assert stage.say("a", b"set after 0 0 1", b"x", b"set after 0 0 1", b"x") == (
        b"STORED\r\nNOT_STORED\r\n"
    )
    finish(stage, reload)
    assert bounded(stage) == COUNT + 2, "also the queue that came before the take"


def test_a_queue_that_is_deleted_in_the_middle_of_a_reload_stays_deleted() -> None:
    stage = stage_with(COUNT)
    reload = reload_of(stage, max_items=1)
    reload.check()
    stage.say("a", b"delete q0")
    assert reload.take()
    old = stage.queue(f"q{COUNT - 1}")
    stage.say("a", b"delete q%d" % (COUNT - 1), b"delete q%d" % (COUNT - 2))
    stage.say("a", b"set q%d 0 0 1" % (COUNT - 1), b"x")
    finish(stage, reload)
    assert b"q0" not in stage.broker.queues
    assert b"q%d" % (COUNT - 2) not in stage.broker.queues
    assert old.policy.max_items is None
    assert bounded(stage) == COUNT - 2


@pytest.mark.parametrize("only_asks", [False, True])
def test_a_declaration_between_the_check_and_the_taking_is_checked(only_asks: bool) -> None:
    stage = stage_with(3)
    config = Config.model_validate({"queues": {"q1": {"dead_letter_to": "q2"}}})
    reload = Reload(stage.policies, stage.broker, config)
    reload.check()
    said = b'dead_letter_to = "q1"'
    stage.say("a", b"set q2/declare 0 0 %d" % len(said), said)
    with pytest.raises(ConfigError, match="makes a cycle"):
        reload.would_be_taken() if only_asks else reload.take()
    assert stage.policies.config is stage.config, "nothing of it counts"


def test_a_reload_that_would_be_taken_has_changed_nothing() -> None:
    stage = stage_with(2)
    reload = reload_of(stage, max_items=1)
    reload.check()
    in_force = stage.policies.config
    assert reload.would_be_taken()
    assert stage.policies.config is in_force
    assert bounded(stage) == 0
    for number in range(LATE_MAX + 1):
        stage.broker.create(b"late%d" % number, stage.now_ms)
    assert not reload.would_be_taken(), "the thread has to check that many"


def test_a_declaration_in_the_middle_of_a_reload_is_laid_over_the_new_configuration() -> None:
    stage = stage_with(COUNT)
    reload = reload_of(stage, max_items=1)
    reload.check()
    assert reload.take()
    said = b"max_bytes = 100"
    last = f"q{COUNT - 1}"
    stage.say("a", b"set %b/declare 0 0 %d" % (last.encode(), len(said)), said)
    finish(stage, reload)
    policy = stage.queue(last).policy
    assert (policy.max_items, policy.max_bytes) == (1, 100)


def test_queues_that_were_created_during_the_check_are_checked_before_it_is_taken() -> None:
    stage = stage_with(2)
    reload = reload_of(stage, max_items=1)
    reload.check()
    for number in range(LATE_MAX + 1):
        stage.broker.create(b"late%d" % number, stage.now_ms)
    assert not reload.take(), "the thread has to check that many"
    assert bounded(stage) == 0
    reload.check()
    assert reload.take()
    finish(stage, reload)
    assert bounded(stage) == LATE_MAX + 3


def test_a_queue_that_was_deleted_during_the_check_does_not_refuse_the_reload() -> None:
    stage = stage_with(2)
    said = b'dead_letter_to = "q1"'
    stage.say("a", b"set q0/declare 0 0 %d" % len(said), said)
    config = Config.model_validate({"queues": {"late": {"dead_letter_to": "q0"}}})
    reload = Reload(stage.policies, stage.broker, config)
    reload.check()
    stage.say("a", b"delete q0")
    said = b'dead_letter_to = "late"'
    stage.say("a", b"set q1/declare 0 0 %d" % len(said), said)
    assert reload.take(), "q0 leads nowhere any more"


def test_an_item_that_comes_between_check_and_taking_keeps_the_key_settings() -> None:
    stage = stage_with(2)
    reload = reload_of(stage, key_match="any", max_items=1)
    reload.check()
    stage.say("a", b"set q1/key=A 0 0 1", b"x")
    with pytest.raises(ConfigError, match="queue q1: key settings cannot change while it holds"):
        reload.take()
    assert stage.policies.config is stage.config
    assert bounded(stage) == 0


def test_a_queue_that_is_made_again_between_check_and_taking_keeps_the_key_settings() -> None:
    stage = stage_with(2)
    reload = reload_of(stage, key_match="any", max_items=1)
    reload.check()
    stage.say("a", b"delete q1", b"set q1/key=A 0 0 1", b"x")
    with pytest.raises(ConfigError, match="queue q1: key settings cannot change while it holds"):
        reload.take()
    assert stage.policies.config is stage.config


def test_a_queue_that_is_made_again_and_empty_has_the_new_key_settings_at_once() -> None:
    stage = stage_with(2)
    reload = reload_of(stage, key_match="any")
    reload.check()
    stage.say("a", b"delete q1", b"set q1 0 0 1", b"x", b"get q1")
    assert reload.take()
    assert stage.queue("q1").policy.keys.matches_any, "before the turn of its queue"


@pytest.mark.parametrize("is_taken", [False, True], ids=["before", "in force"])
@pytest.mark.parametrize(
    ("first", "second", "target"), [("anna", "ben", b"q2"), ("ben", "anna", b"")]
)
def test_a_target_that_another_user_declares_again_is_by_the_rights_of_that_user(
    *, is_taken: bool, first: str, second: str, target: bytes
) -> None:
    stage = stage_with(3)
    said = b'expire_to = "q2"'
    stage.say("a", b"set q1/declare 0 0 %d" % len(said), said)
    anna, ben = user("anna", role="admin", queues=["q1"]), user("ben", role="admin")
    config = Config.model_validate(tomllib.loads(anna + ben))
    stage.policies.owners[b"q1"] = first
    reload = Reload(stage.policies, stage.broker, config)
    reload.check()
    if is_taken:
        assert reload.take()
    stage.policies.owners[b"q1"] = second
    if not is_taken:
        assert reload.take()
    finish(stage, reload)
    assert stage.queue("q1").policy.expire_to == target


def test_an_item_that_comes_before_the_turn_of_its_queue_has_its_key_by_the_new_settings() -> None:
    stage = stage_with(COUNT)
    last = f"q{COUNT - 1}"
    reload = reload_of(stage, key_match="any")
    reload.check()
    assert reload.take()
    stage.say("a", b"set %b/key=A,B 0 0 1" % last.encode(), b"1")
    stage.say("a", b"set %b/key=B,C 0 0 1" % last.encode(), b"2")
    finish(stage, reload)
    opened = b"get %b/open" % last.encode()
    assert stage.say("a", opened) != b"END\r\n"
    assert stage.say("b", opened) == b"END\r\n", "B is in use"
    assert stage.queue(last).policy.keys.matches_any


def test_children_that_a_reload_names_are_made_a_bounded_number_in_each_turn() -> None:
    stage = stage_with(1)
    queues = {f"q0+c{number}": {"max_items": 5} for number in range(COUNT)}
    reload = Reload(stage.policies, stage.broker, Config.model_validate({"queues": queues}))
    reload.check()
    assert reload.take()
    assert not reload.go_on(stage.now_ms)
    assert len(stage.queue("q0").children) == STEPS_MAX - 1
    finish(stage, reload)
    assert len(stage.queue("q0").children) == COUNT
    assert stage.queue("q0+c7").policy.max_items == 5


def test_a_kill_in_the_middle_of_a_reload_leaves_queues_that_the_next_start_can_take() -> None:
    stage = stage_with(COUNT)
    for number in (0, COUNT - 1):
        stage.say("a", b"get q%d+c/peek" % number)
    reload = reload_of(stage, fanout_only=True)
    reload.check()
    assert reload.take()
    assert not reload.go_on(stage.now_ms)
    stage.work()
    stage.kill()
    stage.set_queue(fanout_only=True)
    for number in (0, COUNT - 1):
        assert stage.queue(f"q{number}").passes_on
        stage.say("a", b"set q%d 0 0 1" % number, b"x")
        assert stage.say("a", b"get q%d" % number) == b"END\r\n"
        assert stage.say("a", b"get q%d+c" % number) != b"END\r\n"


async def test_reloads_that_are_asked_for_during_one_are_one_that_begins_behind_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        assert server.daemon is not None
        peers = [await server.client() for _ in range(4)]
        await peers[0].ask(b"set jobs 0 0 1\r\na\r\n")
        loads = []
        load, reading, go = server.daemon._load, asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow_load() -> Config:
            config = load()
            loads.append(config.queue_defaults.max_items)
            loop.call_soon_threadsafe(reading.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
            return config

        server.daemon._load = slow_load
        peers[0].writer.write(b"reload\r\n")
        await reading.wait()  # the first reload has read the file
        server.config_file.write_text("[queue_defaults]\nmax_items = 1\n")
        for peer in peers[1:]:
            peer.writer.write(b"reload\r\nreload\r\n")
        while server.daemon._next_reload is None:
            await asyncio.sleep(0)
        go.set()
        assert await peers[0].line() == b"Reloaded config.\r\n"
        for peer in peers[1:]:
            assert await peer.line() == b"Reloaded config.\r\n"
            assert await peer.line() == b"Reloaded config.\r\n"
        assert loads[:2] == [None, 1]
        assert len(loads) < 1 + 2 * 3, "those that waited together were one"
        assert await peers[1].ask(b"set jobs 0 0 1\r\nb\r\n") == b"NOT_STORED\r\n"


async def test_a_reload_that_fails_for_one_queue_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Queue.set_policy

    def set_policy(queue: Queue, policy: Policy, now_ms: int) -> None:
        if queue.name == b"q1" and policy.max_items == 1:
            raise RuntimeError("what nobody expected")
        real(queue, policy, now_ms)

    async with running(tmp_path) as server:
        peer = await server.client()
        for number in range(3):
            assert await peer.ask(b"set q%d 0 0 1\r\nx\r\n" % number) == b"STORED\r\n"
        monkeypatch.setattr(Queue, "set_policy", set_policy)
        server.config_file.write_text("[queue_defaults]\nmax_items = 1\n")
        answer = await peer.ask(b"reload\r\n")
        assert answer.startswith(b"SERVER_ERROR configuration reloaded, but not for queue q1:")
        assert await peer.ask(b"set q0 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
        assert await peer.ask(b"set q2 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
        monkeypatch.setattr(Queue, "set_policy", real)
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        assert await peer.ask(b"set q1 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
    assert "what nobody expected" in caplog.text


async def test_a_reload_that_fails_otherwise_is_answered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(reload: Reload) -> bool:
        raise RuntimeError("what nobody expected")

    async with running(tmp_path) as server:
        peer = await server.client()
        with monkeypatch.context() as context:
            context.setattr(Reload, "take", take)
            answer = await peer.ask(b"reload\r\n")
        assert answer.startswith(b"SERVER_ERROR configuration not reloaded"), answer
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"


def test_aliases_are_those_of_the_new_file_once_it_is_taken() -> None:
    stage = ServerHarness()
    stage.set_alias("both", ["one", "two"])
    config = Config.model_validate({"aliases": {"all": {"to": ["three", "four"]}}})
    reload = Reload(stage.policies, stage.broker, config)
    reload.check()
    assert reload.take()
    finish(stage, reload)

    stage.say("eve", b"set all 0 0 1", b"x")
    stage.say("eve", b"set both 0 0 1", b"y")

    assert sorted(stage.broker.queues) == [b"both", b"four", b"three"]


@pytest.mark.parametrize("are_new", [False, True], ids=["gone", "new"])
def test_the_loop_looks_at_no_block_of_a_configuration(are_new: bool) -> None:
    """Comparing and freeing tens of thousands of them are for a thread."""

    def cost(blocks: int) -> int:
        stage = stage_with(1)
        many = Config.model_validate({"queues": {f"b{n}": {"max_items": 1} for n in range(blocks)}})
        stage.policies.config = Config() if are_new else many
        with Work() as counted:
            reload = Reload(stage.policies, stage.broker, many if are_new else Config())
        reload.check()
        assert reload.changed.endswith(f", and {blocks - 10} more")
        with counted:
            assert reload.take()
            finish(stage, reload)
        assert len(reload._outdated) == (0 if are_new else 2 * blocks)
        reload.free()
        assert not reload._outdated
        return counted.steps

    few, many = cost(20), cost(1020)
    assert many <= few + 10


def test_a_reload_that_changes_nothing_says_so() -> None:
    stage = stage_with(1)
    reload = reload_of(stage)
    reload.check()
    assert reload.changed == "nothing has changed"


# Requests that read a setting of the server each time: no reload has to pass it on.
_READ_BY = {
    "max_open_reads": b"monitor jobs 0 1\r\n",
    "allow_delete": b"delete jobs\r\n",
    "allow_flush_all": b"flush_all\r\n",
    "allow_shutdown": b"shutdown\r\n",
}


async def test_each_setting_of_the_server_without_restart_is_read_after_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that nothing reads again needs `AT_START`, else a reload says that it is in force."""
    certificate(tmp_path, "server")
    monkeypatch.setattr(serve, "log_to_stderr", lambda *_: None)
    unread = {
        name for name, field in ServerConfig.model_fields.items() if AT_START not in field.metadata
    }
    async with running(tmp_path) as server:
        daemon = server.daemon
        assert daemon is not None
        daemon._taken = serve._log_as_it_says
        began = daemon.config.server
        all_read = asyncio.Event()

        def see(section: ServerConfig, name: str) -> object:
            """Note a read of a setting, unless the configuration itself compares all settings."""
            reader = sys._getframe(1).f_globals["__name__"]
            if section is not began and not reader.startswith(("kestrelpy.config.", "pydantic.")):
                unread.discard(name)
                if not unread:
                    all_read.set()
            return object.__getattribute__(section, name)

        monkeypatch.setattr(ServerConfig, "__getattribute__", see)
        server.config_file.write_text(
            '[server]\nmax_queues = 7\ntls_cert = "server.pem"\ntls_key = "server.key"\n'
        )
        peer = await server.client()
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        assert daemon.broker.queues_max == 7
        for name, request in _READ_BY.items():
            assert name in unread, "a reload passes it on"
            await peer.ask(request)
            assert name not in unread, f"{request!r} does not read it"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await all_read.wait()  # a sweep reads the last one
        except TimeoutError:
            pytest.fail(f"no reload applies {sorted(unread)}")
