"""Pages of queues: searched, sorted, complete, with a bound on what is held."""

from __future__ import annotations

from kestrelpy.operations.lists.queues import QueueOrder, list_queues
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted, ended


def server_with(sizes: dict[bytes, int]) -> ServerHarness:
    server = ServerHarness()
    for name, size in sizes.items():
        server.broker.create(name, server.now_ms)
        for _ in range(size):
            server.say("a", b"set %b 0 0 1" % name, b"x")
    return server


def names(server: ServerHarness, by: QueueOrder) -> list[str]:
    page = ended(list_queues(server.broker, by))
    return [queue.name.decode() for queue in page.queues]


def test_a_page_has_the_queues_that_contain_the_words_in_any_case() -> None:
    server = server_with({b"Mail": 0, b"mail-late": 0, b"jobs": 0})
    page = ended(list_queues(server.broker, QueueOrder(search=b"MAIL", most=1)))
    assert ([q.name for q in page.queues], page.matched) == ([b"Mail"], 2)
    assert page.next == (0, b"Mail")


def test_all_pages_together_have_each_queue_once_in_either_direction() -> None:
    server = server_with({b"q%d" % n: n % 3 for n in range(7)})
    for is_descending in (False, True):
        by, seen = QueueOrder(sort="items", is_descending=is_descending, most=2), []
        for _ in range(7):
            page = ended(list_queues(server.broker, by))
            seen += [(queue.reader.ready.count, queue.name) for queue in page.queues]
            if page.next is None:
                break
            by = by._replace(after=page.next)
        assert seen == sorted(seen, reverse=is_descending)
        assert len(seen) == 7


def test_a_walk_over_many_queues_pauses_between_its_slices() -> None:
    server = server_with({b"q%04d" % number: 0 for number in range(1001)})
    page, pauses = counted(list_queues(server.broker, QueueOrder(most=2)))
    assert (page.matched, pauses) == (1001, 2)
    assert names(server, QueueOrder(most=1, is_descending=True)) == ["q1000"]
