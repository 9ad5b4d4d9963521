"""Celery on kestrelpy: what its users expect of a broker, with a real worker."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason="celery is not installed: pip install 'kestrelpy[celery]'")

from kombu import Connection, Exchange, Queue

from kestrelpy.client import ServerRefusal
from kestrelpy.kombu import NameRefused, Undeliverable, Unsupported, UrlRefused
from kestrelpy.kombu.options import warn_once
from tests.process.celery_broker.workers import Shop, shop_of
from tests.process.client.proxy import Proxy


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """The name of a queue that no other test has."""
    return f"q-{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"


def facts_of_dead(shop: Shop, queue: str) -> list[str]:
    found = shop.daemon.client().stats(f"{queue}/dead")
    return [value.decode() for key, value in found.items() if key.endswith(b"_reason")]


def test_a_chain_and_a_chord_give_their_results(shop: Shop) -> None:
    script = """
print(chain(add.s(1, 2), add.s(3), add.s(4)).apply_async().get(timeout=40))
print(chord([add.s(n, n) for n in range(10)], total.s()).apply_async().get(timeout=40))
"""
    assert shop.send(script).split() == ["10", "90"]


def test_a_task_that_retries_runs_again_until_it_works(shop: Shop) -> None:
    shop.send("flaky.delay('flaky-1', 3)")

    shop.until(lambda: "did flaky-1" in shop.ran())
    assert shop.ran().count("failed flaky-1") == 3


def test_a_countdown_waits_in_the_daemon(shop: Shop) -> None:
    shop.send("when.apply_async(('later',), countdown=4); when.delay('now')")
    sent_at = time.time()

    shop.until(lambda: shop.counts()["delayed"] == 1, 3)  # no worker holds it
    shop.until(lambda: any(line.startswith("later ") for line in shop.ran()))
    [ran_at] = [float(line.split()[1]) for line in shop.ran() if line.startswith("later ")]
    assert ran_at >= sent_at + 2
    assert any(line.startswith("now ") for line in shop.ran())


def test_a_task_runs_for_longer_than_its_lease_and_runs_once(shop: Shop) -> None:
    shop.send("slow.delay('long', 4)")

    shop.until(lambda: "ended long" in shop.ran())
    assert shop.ran().count("begun long") == 1


def test_a_rejected_task_is_a_dead_letter_and_a_requeued_one_runs_again(shop: Shop) -> None:
    shop.send("refuse.apply_async(('a', False), queue='other');"
              "refuse.apply_async(('b', True), queue='other')")  # fmt: skip

    shop.until(lambda: shop.is_empty("other") and "refused b True" in shop.ran())
    assert [line for line in shop.ran() if line.startswith("refused")] == [
        "refused a False", "refused b False", "refused b True",
    ]  # fmt: skip
    assert facts_of_dead(shop, "other") == ["rejected"]


def test_a_task_that_nobody_knows_and_an_item_of_somebody_else_are_dead_letters(
    tmp_path: Path,
) -> None:
    with shop_of(tmp_path) as shop:
        shop.daemon.client().set("celery", b"plain text")
        shop.send("app.send_task('shop.nosuch'); count.delay(1)")
        shop.start(pool="solo", jobs=1)

        shop.until(lambda: shop.ran() == ["1"] and shop.is_empty())
        assert sorted(facts_of_dead(shop, "celery")) == [
            "not%20a%20message%20of%20kombu", "rejected",
        ]  # fmt: skip


def test_a_revoked_task_does_not_run(shop: Shop) -> None:
    # The worker hears of it by remote control, before the task is due.
    shop.send("one = when.apply_async(('revoked',), countdown=3); one.revoke()\n"
              "when.apply_async(('after-revoked',), countdown=4)")  # fmt: skip

    shop.until(lambda: any(line.startswith("after-revoked") for line in shop.ran()))
    shop.until(shop.is_empty)
    assert not any(line.startswith("revoked") for line in shop.ran())


def test_remote_control_reaches_every_worker(shop: Shop) -> None:
    said = shop.send("print(sorted(app.control.inspect(timeout=2).ping().items()))")

    assert said == "[('w0@test', {'ok': 'pong'})]"


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_that_must_stop_finishes_what_runs_and_gives_back_the_rest(
    tmp_path: Path, pool: str
) -> None:
    with shop_of(tmp_path, lease="30s") as shop:
        shop.send("for n in range(8): slow.delay(str(n), 0.3)")
        worker = shop.start(pool=pool, jobs=1)
        shop.until(lambda: "begun 0" in shop.ran())

        shop.stop(worker)

        assert worker.returncode == 0
        left = shop.counts()
        assert left["open_transactions"] == 0  # no message has to wait for the end of a lease
        assert left["items"] == 8 - len([line for line in shop.ran() if line.startswith("ended")])
        assert left["items"] >= 3


def test_early_acknowledged_tasks_and_events_work_too(tmp_path: Path) -> None:
    with shop_of(tmp_path) as shop:
        script = """
import threading
seen = []
def note_event(event):
    seen.append(event["type"])
def listen():
    with app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": note_event})
        receiver.capture(limit=None, timeout=30, wakeup=False)
threading.Thread(target=listen, daemon=True).start()
time.sleep(1)
for n in range(3): count.delay(n)
until = time.time() + 30
while seen.count("task-succeeded") < 3 and time.time() < until: time.sleep(0.1)
print(seen.count("task-succeeded"))
"""
        shop.environment["SHOP_EARLY"] = "1"
        shop.start("-E")
        assert shop.send(script) == "3"
        shop.until(shop.is_empty)


URL = "kestrelpy://127.0.0.1:{port}"


def test_kombu_alone_puts_and_gets(shop: Shop) -> None:
    with Connection(URL.format(port=shop.daemon.port)) as connection:
        queue = connection.SimpleQueue("a/b c+ü%")
        queue.put({"hello": 1})
        assert queue.qsize() == 1
        message = queue.get(timeout=10)
        message.requeue()
        again = queue.get(timeout=10)
        assert (again.payload, again.delivery_info["redelivered"]) == ({"hello": 1}, True)
        again.ack()
        assert queue.qsize() == 0
        queue.close()

    shop.until(lambda: shop.is_empty("a%2Fb%20c%2B%C3%BC%25"))


def test_a_channel_that_closes_gives_back_what_it_has(shop: Shop) -> None:
    with Connection(URL.format(port=shop.daemon.port)) as connection:
        queue = connection.SimpleQueue("closing")
        queue.put(1)
        assert queue.get(timeout=10).payload == 1

    assert (shop.counts("closing")["items"], shop.counts("closing")["open_transactions"]) == (1, 0)


def test_a_topic_exchange_gives_each_queue_what_it_is_bound_to(shop: Shop) -> None:
    news = Exchange("news", "topic")
    seen: list[tuple[str, str]] = []
    with Connection(URL.format(port=shop.daemon.port)) as connection:
        queues = [Queue("all", news, "#"), Queue("sport", news, "sport.*")]
        consumers = [
            connection.Consumer(queue, callbacks=[
                lambda body, message, name=queue.name: (seen.append((name, body)), message.ack())
            ])
            for queue in queues
        ]  # fmt: skip
        for consumer in consumers:
            consumer.consume()
        # Another process knows the exchange, and none of the queues.
        with Connection(URL.format(port=shop.daemon.port)) as other:
            for key in ("sport.golf", "art.music"):
                other.Producer().publish(key, exchange=news, routing_key=key, declare=[news])
        while len(seen) < 3:
            connection.drain_events(timeout=10)
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=1)

    assert sorted(seen) == [("all", "art.music"), ("all", "sport.golf"), ("sport", "sport.golf")]


def test_a_message_that_no_queue_would_get_is_refused(shop: Shop) -> None:
    with (
        Connection(URL.format(port=shop.daemon.port)) as connection,
        pytest.raises(Undeliverable, match="no queue is bound to exchange 'plain'"),
    ):
        exchange = Exchange("plain", "direct")
        connection.Producer().publish(1, exchange=exchange, routing_key="x", declare=[exchange])


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("kestrelpy://127.0.0.1/jobs", {}, "the daemon has no virtual hosts"),
        ("kestrelpy://127.0.0.1", {"lease": "30"}, 'option lease: "30" is not a duration'),
        ("kestrelpy://127.0.0.1", {"lease": 0}, "the transport option lease must be at least 1s"),
        ("kestrelpy://127.0.0.1", {"visibility_timeout": "x"}, 'visibility_timeout: "x" is not a'),
        ("kestrelpy://127.0.0.1", {"visibility_timeout": 60, "lease": "30s"}, "contradict each"),
    ],
)
def test_a_wrong_url_or_option_is_one_sentence(
    url: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises(UrlRefused, match=said) as error:
        Connection(url, transport_options=options).connect()

    assert "\n" not in str(error.value) and "secret" not in str(error.value)


def test_an_expired_task_is_revoked_and_does_not_run(tmp_path: Path) -> None:
    with shop_of(tmp_path) as shop:
        shop.send("late = add.apply_async((1, 2), expires=0.5); count.delay(7)")
        time.sleep(1)
        shop.start(pool="solo", jobs=1)

        shop.until(lambda: shop.ran() == ["7"] and shop.is_empty())
        assert shop.send("print(late.state)") == "REVOKED"


def test_results_come_back_over_rpc(tmp_path: Path) -> None:
    with shop_of(tmp_path) as shop:
        shop.environment["SHOP_RESULTS"] = "rpc://"
        shop.start(pool="solo", jobs=1)
        script = "print([add.delay(n, 1).get(timeout=40) for n in range(3)])"
        assert shop.send(script) == "[1, 2, 3]"


def test_results_that_nobody_fetches_go_after_their_time(tmp_path: Path) -> None:
    """A process that waits for no result leaves a queue: it goes, and the results in it before."""
    with shop_of(tmp_path) as shop:
        shop.environment["SHOP_RESULTS"] = "rpc://"
        script = "app.conf.result_expires = 1\nprint(add.delay(1, 1).app.thread_oid)"
        name = shop.send(script)

        def settings() -> list[bytes | None]:
            found = shop.daemon.client().stats(f"{name}/settings")
            names = ("max_queue_age", "max_age")
            return [found.get(f"queue_{name}_setting_{each}".encode()) for each in names]

        assert settings() == [b"1s", b"1s"]
        # The queue goes, as if it had not been used for long: the next task declares it again.
        shop.daemon.client().delete(name)
        shop.send("time.sleep(0.5); add.delay(1, 1)")
        assert settings() == [b"1s", b"1s"]
        shop.daemon.client().set(name, b"an answer")
        shop.until(lambda: not shop.daemon.client().stats(name), 20)


def test_the_largest_task_is_as_the_page_says(shop: Shop) -> None:
    with Connection(URL.format(port=shop.daemon.port)) as connection:
        queue = connection.SimpleQueue("large", serializer="raw", compression=None)
        queue.put(b"x" * 6_000_000, content_type="application/data", content_encoding="binary")
        with pytest.raises(ServerRefusal, match="item too large"):
            queue.put(b"x" * 6_300_000, content_type="application/data", content_encoding="binary")
        queue.clear()
        queue.close()


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"message_ttl": 90}, {"max_age": "90s"}),
        ({"max_length": 5}, {"max_items": "5", "discard_old_when_full": "true"}),
        (
            {"queue_arguments": {"x-max-length": 5, "x-overflow": "reject-publish"}},
            {"max_items": "5", "discard_old_when_full": "false"},
        ),
        ({"max_length_bytes": 2048, "expires": 60}, {"max_bytes": "2KiB", "max_queue_age": "1m"}),
    ],
)
@pytest.mark.parametrize("exchange", ["", "direct"])
def test_arguments_of_a_queue_are_settings_of_the_daemon(
    shop: Shop, queue: str, given: dict[str, Any], settings: dict[str, str], exchange: str
) -> None:
    with Connection(URL.format(port=shop.daemon.port)) as connection:
        bound = Queue(queue, Exchange(exchange, type="direct"), routing_key=queue, **given)
        for _ in range(2):
            producer = connection.Producer()
            producer.publish({"n": 1}, exchange=bound.exchange, routing_key=queue, declare=[bound])
    found = shop.daemon.client().stats(f"{queue}/settings")
    said = {key.decode().rpartition(f"{queue}_setting_")[2]: value for key, value in found.items()}
    plain = {
        name: value.decode().split()[0] if isinstance(value, bytes) else str(value)
        for name, value in said.items()
    }
    assert {name: plain[name] for name in settings} == settings


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_priority": 9}, "x-max-priority: the daemon has no priorities"),
        ({"queue_arguments": {"x-max-prio": 9}}, "x-max-prio=9 is not understood"),
        ({"queue_arguments": {"x-max-lenght": 9}}, "did you mean x-max-length"),
        ({"queue_arguments": {"x-queue-type": "quorum"}}, "say classic"),
        ({"queue_arguments": {"x-max-length": "many"}}, "x-max-length='many' cannot be"),
    ],
)
def test_an_argument_of_a_queue_that_cannot_be_is_refused(
    shop: Shop, given: dict[str, Any], said: str
) -> None:
    with (
        Connection(URL.format(port=shop.daemon.port)) as connection,
        pytest.raises(Unsupported, match=said),
    ):
        Queue("refused", channel=connection.channel(), **given).declare()


def test_a_queue_that_was_declared_otherwise_is_refused(shop: Shop, queue: str) -> None:
    direct = Exchange("direct", type="direct")
    for length, is_refused in ((5, False), (5, False), (6, True)):
        with Connection(URL.format(port=shop.daemon.port)) as connection:
            bound = Queue(queue, direct, queue, max_length=length)(connection.channel())
            publish = partial(bound.exchange.publish, bound.exchange.Message("x"), queue)
            for use in (bound.declare, bound.get, bound.get, publish):
                refused = pytest.raises(Unsupported, match="other settings")
                with refused if is_refused else nullcontext():
                    use()  # without its settings it is not used either


def test_a_priority_is_refused(shop: Shop) -> None:
    assert "the daemon has no priorities" in shop.send(
        "try:\n    count.apply_async((1,), priority=5)\nexcept Exception as e:\n    print(e)"
    )


def test_an_unknown_transport_option_is_warned_of_and_a_known_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_once.cache_clear()
    options = {"visibility_timout": 60, "max_retries": 3, "lease": "30s", "fanout_prefix": True}
    Connection("kestrelpy://127.0.0.1:1", transport_options=options).transport  # noqa: B018

    assert caplog.messages == [
        "the transport option visibility_timout means nothing here: did you mean "
        "visibility_timeout?",
        "the transport option fanout_prefix means nothing here: there are lease, patience, "
        "visibility_timeout",
    ]


def test_the_visibility_timeout_is_the_lease() -> None:
    for said, seconds in ((60, 60), ("60", 60), ("5m", 300), (1.5, 2)):
        options = {"visibility_timeout": said}
        client = Connection("kestrelpy://127.0.0.1:1", transport_options=options)
        assert client.transport._lease_seconds == seconds


def test_a_daemon_that_is_away_is_one_line_in_the_log_of_a_worker(tmp_path: Path) -> None:
    with shop_of(tmp_path) as shop:
        shop.start(pool="solo", jobs=1)
        shop.send("count.delay(1)")
        shop.until(lambda: shop.ran() == ["1"])
        shop.daemon.kill()
        shop.until(lambda: "trying again until it is back" in shop.logs())
        time.sleep(3)
        shop.daemon.start()
        shop.until(lambda: "is back after" in shop.logs())
        shop.send("count.delay(2)")
        shop.until(lambda: shop.ran() == ["1", "2"])
        said = [line for line in shop.logs().splitlines() if "the daemon at" in line]
        assert ["trying again" in line for line in said] == [True, False], said


def test_a_queue_name_that_cannot_be_is_one_sentence(shop: Shop) -> None:
    with (
        Connection(URL.format(port=shop.daemon.port)) as connection,
        pytest.raises(NameRefused, match=r"has a name of 150 bytes .* at most 128 are allowed"),
    ):
        connection.SimpleQueue("ü" * 25)


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(ConnectionRefusedError):
        Connection("kestrelpy://127.0.0.1:1").connect()


def test_the_transport_is_found_by_its_whole_name_without_an_import(shop: Shop) -> None:
    script = (
        "from kombu import Connection\n"
        f"url = 'kestrelpy://127.0.0.1:{shop.daemon.port}'\n"
        "connection = Connection(url, transport='kestrelpy.kombu:Transport')\n"
        "connection.connect(); print(connection.transport.driver_type)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert ended.stdout == b"kestrelpy\n"


def test_what_is_published_over_a_bad_connection_is_stored_once(shop: Shop) -> None:
    over = threading.Event()

    def cut(wire: Proxy) -> None:
        while not over.wait(0.05):
            wire.cut()

    with Proxy(shop.daemon.port) as wire:
        threading.Thread(target=cut, args=(wire,), daemon=True).start()
        url = URL.format(port=wire.address[1])
        with Connection(url, transport_options={"patience": "60s"}) as connection:
            queue = connection.SimpleQueue("bad-connection")
            for number in range(300):
                queue.put(number)
            over.set()
            queue.close()

    assert shop.counts("bad-connection")["items"] == 300


def test_a_copy_of_a_process_publishes_what_is_its_own(shop: Shop) -> None:
    with Connection(URL.format(port=shop.daemon.port)) as connection:
        queue = connection.SimpleQueue("copied")
        queue.put("before")
        child = os.fork()
        if child == 0:
            queue.put("by the copy")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        queue.put("after")

        assert shop.counts("copied")["items"] == 3
        queue.close()
