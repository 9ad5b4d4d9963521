"""A reload: fan-out begins with it, and the named children are created."""

from __future__ import annotations

from dataclasses import fields

from kestrelpy.config import QueueSettings
from kestrelpy.config.settings import Config
from kestrelpy.core import Policy
from kestrelpy.server.policies import MADE_OF, Policies, policy_of
from tests.support.server_harness import ServerHarness


def test_fanout_only_holds_from_a_reload_on_and_until_the_next() -> None:
    stage = ServerHarness()
    stage.say("a", b"get orders+audit/peek", b"set orders 0 0 1", b"1")

    stage.set_queue("orders", fanout_only=True)
    stage.say("a", b"set orders 0 0 1", b"2")
    stage.set_queue("orders", fanout_only=False)
    stage.say("a", b"set orders 0 0 1", b"3")

    own = [stage.say("a", b"get orders")[18:19] for _ in range(2)]
    child = [stage.say("a", b"get orders+audit")[24:25] for _ in range(3)]
    assert (own, child) == ([b"1", b"3"], [b"1", b"2", b"3"])


def test_a_child_that_a_reload_names_is_there_from_then_on() -> None:
    stage = ServerHarness()
    stage.say("a", b"set orders 0 0 1", b"1")

    stage.set_queue("orders+audit", max_items=5)
    stage.say("a", b"set orders 0 0 1", b"2")

    assert stage.say("a", b"get orders+audit") == b"VALUE orders+audit 0 1\r\n2\r\nEND\r\n"
    assert stage.queue("orders+audit").policy.max_items == 5


def test_the_settings_in_force_are_those_of_the_queue_with_their_source() -> None:
    blocks = {"jobs": {"max_items": 5}, "mail": {"max_items": 6}}
    policies = Policies(Config.model_validate({"queues": blocks}))
    for name, most in ((b"jobs", "5"), (b"mail", "6")):
        for declared in (b"", b"max_bytes = 100\n"):
            found = {key: value for key, value, _ in policies.settings(name, declared)}
            assert found["max_items"] == most
            assert (found["max_bytes"] == "100") == bool(declared)


def test_the_core_has_each_setting_as_it_is_or_what_was_made_of_it() -> None:
    settings = {each.name for each in fields(QueueSettings)}
    assert settings >= MADE_OF
    assert {each.name for each in fields(Policy)} >= settings - MADE_OF


def test_the_defaults_of_the_settings_are_those_of_the_core() -> None:
    assert policy_of(QueueSettings()) == Policy()


def test_a_setting_that_the_core_has_as_it_is_reaches_it() -> None:
    policy = policy_of(QueueSettings(max_leased=3, retry_backoff=2.5, dedupe_window_ms=None))
    assert (policy.max_leased, policy.retry_backoff, policy.dedupe_window_ms) == (3, 2.5, None)
