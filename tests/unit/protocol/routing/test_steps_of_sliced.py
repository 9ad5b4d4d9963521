"""The steps of a request for a sliced queue, with answers that a slice gives now and then: which
slices are asked what, and what the client hears."""

from __future__ import annotations

import pytest

from kestrelpy.core import KeySettings
from kestrelpy.protocol.routing.asking import AskAtOnce
from kestrelpy.protocol.routing.routed import RoutedConversation
from kestrelpy.protocol.routing.sliced import Opened, SlicedSeat
from tests.support.routed_harness import SlicedHarness

END = b"END\r\n"
OPEN = b"STAT state leased\r\nEND\r\n"
FULL = b"CLIENT_ERROR close or abort"
STORED = b"STORED\r\n"


class Scripted:
    """A client of a router whose slices say what the test wants."""

    def __init__(self) -> None:
        self.many = SlicedHarness(3)
        self.many.sliced = {b"jobs": KeySettings(), b"more": KeySettings()}
        self.talk = RoutedConversation(self.many)
        self.asked: list[tuple[int, bytes]] = []  # by the last request

    def say(self, request: bytes, *answers: bytes) -> bytes:
        """Return what the client hears when the slices answer so, one after the other."""
        self.asked, left = [], list(answers)
        self.talk.feed(request)
        while self.talk.sent:
            sent, self.talk.sent = self.talk.sent, []
            self.asked += sent
            for number, _ in sent:
                self.talk.heard(number, left.pop(0))
        assert not left
        out, self.talk.out = b"".join(self.talk.out), []
        return out

    def open(self, queue: bytes, token: int) -> None:
        said = b"VALUE %b/open 0 1 %d\r\nx\r\nEND\r\n" % (queue, token)
        assert self.say(b"get %b/open\r\n" % queue, said).startswith(b"VALUE")

    @property
    def lines(self) -> list[bytes]:
        return [raw.partition(b"\r\n")[0] for _, raw in self.asked]


@pytest.fixture
def client() -> Scripted:
    return Scripted()


def test_a_mistake_of_the_client_ends_a_fetch_and_a_slice_in_trouble_does_not(
    client: Scripted,
) -> None:
    forbidden, failed = b"CLIENT_ERROR forbidden: no\r\n", b"SERVER_ERROR the disk\r\n"
    value = b"VALUE jobs 0 1\r\nx\r\nEND\r\n"
    assert client.say(b"get jobs\r\n", forbidden) == forbidden
    assert client.say(b"get jobs\r\n", failed, value) == value
    assert client.say(b"get jobs\r\n", END, failed, END) == failed
    assert client.say(b"get jobs\r\n", END, END, END) == END


def test_a_connection_with_as_many_items_as_it_may_have_ends_a_lease_of_another_alone(
    client: Scripted,
) -> None:
    client.open(b"more", 7)
    request = b"get jobs/close/open/token=9\r\n"
    assert client.say(request, OPEN).startswith(FULL)
    assert client.lines == [b"stats more/token=7"]
    assert client.say(request, END, END, END, END, END) == END  # the other one is over
    assert client.lines[0] == b"stats more/token=7"
    assert b"close" in client.lines[1]


@pytest.mark.parametrize("token", range(1, 7))
def test_a_hand_off_that_names_a_lease_goes_to_the_slice_of_that(
    client: Scripted, token: int
) -> None:
    many = client.many
    assert client.say(b"set a/confirm=jobs:%d 0 0 1\r\ny\r\n" % token, STORED) == STORED
    assert client.asked[0][0] == many.placement.slice_of_token(b"jobs", token)
    assert client.say(b"set a/confirm=other:%d 0 0 1\r\ny\r\n" % token, STORED) == STORED
    assert client.asked[0][0] == many.placement.slice_of(b"other")


def test_a_hand_off_without_a_name_needs_one_open_item(client: Scripted) -> None:
    client.many.open_reads_max = 2
    client.open(b"jobs", 7)
    client.open(b"more", 8)
    slice_of_more = client.asked[0][0]
    request = b"set a/confirm 0 0 1\r\ny\r\n"
    assert client.say(request, OPEN, OPEN).startswith(b"CLIENT_ERROR several items are open")
    assert client.lines == [b"stats jobs/token=7", b"stats more/token=8"]
    assert client.say(request, END, OPEN, STORED) == STORED  # the first one is over
    assert client.asked[-1][0] == slice_of_more


def test_figures_of_a_queue_are_whole_or_an_error(client: Scripted) -> None:
    error = b"SERVER_ERROR busy\r\n"
    assert client.say(b"stats jobs\r\n", END, error, END) == error
    long, short = b"STAT a 1\r\nSTAT b 2\r\nEND\r\n", b"STAT a 1\r\nEND\r\n"
    assert client.say(b"stats jobs/settings\r\n", short, long, END) == long
    assert client.say(b"stats jobs/settings\r\n", short, error, END) == error


def test_a_get_of_several_keys_ends_with_the_first_error(client: Scripted) -> None:
    value = b"VALUE a 0 1\r\nx\r\n"
    error = b"SERVER_ERROR busy\r\n"
    said = client.say(b"get a jobs b\r\n", value + END, END, error, END)
    assert said == value + error
    assert client.lines == [b"get a", *[b"get jobs"] * 3]
    assert client.say(b"get a jobs b\r\n", error) == error
    assert client.lines == [b"get a"]


def test_of_a_get_that_waited_each_item_but_one_goes_back_and_that_one_is_confirmed() -> None:
    many = SlicedHarness(3)
    many.sliced[b"jobs"] = KeySettings()
    assert many.say("c", b"get jobs/t=5s\r\n") == b""
    for number, each in many.slices.items():
        each.say("beside", b"set jobs 0 0 1", b"%d" % number)
    many.asked.clear()
    assert many.say("c", b"").count(b"VALUE") == 1
    closed = {number for number, raw in many.asked if b"/close/" in raw}
    deferred = [number for number, raw in many.asked if b"/defer/" in raw]
    assert len(closed) == 1
    assert sorted([*closed, *deferred]) == [1, 2, 3]


def test_the_waits_of_the_others_are_ended_once() -> None:
    race = AskAtOnce([1, 2, 3], b"gets jobs/t=5\r\n", is_held=True)
    assert race.to_tell(is_over=False) == []
    race.note(1, END, is_whole=True)
    assert race.to_tell(is_over=False) == [], "nothing came there"
    race.note(2, b"VALUE jobs 0 1 7\r\n", is_whole=False)
    assert race.to_tell(is_over=False) == []
    race.note(2, b"x\r\nEND\r\n", is_whole=True)
    assert race.to_tell(is_over=False) == [3]
    assert race.to_tell(is_over=True) == []
    assert race.holds(2) and not race.holds(1)
    assert AskAtOnce([1, 2], b"", is_held=False).to_tell(is_over=True) == [1, 2]


def test_the_item_whose_lease_ended_is_noted_no_more_and_the_others_are() -> None:
    seat = SlicedSeat()
    for number, token in ((1, 7), (2, 8), (3, 9)):
        seat.note(b"jobs", Opened(number, token))
    seat.ended(b"jobs", 8)
    assert (seat.count, seat.oldest(b"jobs"), seat.has(b"jobs", 8)) == (2, 1, False)
    seat.ended(b"jobs", 5)
    assert seat.count == 2
    seat.ended(b"jobs")
    assert (seat.count, seat.oldest(b"jobs"), seat.holds(1), seat.holds(3)) == (1, 3, False, True)
    seat.ended(b"jobs")
    assert (seat.count, seat.oldest(b"jobs"), seat.opened) == (0, 0, {})


def test_a_connection_can_do_without_the_slices_in_which_it_has_nothing(client: Scripted) -> None:
    talk, home = client.talk, client.many.placement.slice_of(b"a")
    others = [number for number in (1, 2, 3) if number != home]

    def needed() -> list[int]:
        assert all(map(talk.can_lose, others))
        return [number for number in (1, 2, 3) if not talk.can_lose(number)]

    assert needed() == []
    talk.feed(b"get a/t=5s\r\n")
    assert needed() == [home], "it owes an answer"
    talk.heard(home, END)
    assert needed() == []
    talk.feed(b"set a 0 0 1 noreply\r\nx\r\n")
    assert needed() == [home], "it may not have come"
    talk.feed(b"get a\r\n")
    talk.heard(home, END)
    assert needed() == []
    talk.feed(b"get a/open\r\n")
    talk.heard(home, b"VALUE a/open 0 1\r\nx\r\nEND\r\n")
    assert needed() == [home], "it leases an item"


def test_nothing_of_a_lost_slice_is_taken_for_what_the_next_connection_to_it_says(
    client: Scripted,
) -> None:
    client.talk.feed(b"get jobs/peek/t=5s\r\n")
    for _ in range(3):
        ((number, _),), client.talk.sent = client.talk.sent, []
        client.talk.heard(number, END)
    client.talk.sent = []  # the waits in all three
    client.talk.heard(1, b"VALUE jobs/peek 0 4 1\r\nab")
    client.talk.lose(1)
    client.talk.sent = []  # the others' waits end
    for number in (2, 3):
        client.talk.heard(number, END)
    assert b"".join(client.talk.out) == b"SERVER_ERROR the connection to slice 1 broke\r\n"
    client.talk.out = []
    client.talk.lose(2)
    facts = b"STAT a 1\r\nEND\r\n"
    assert client.say(b"stats jobs/settings\r\n", facts, facts, facts) == facts


def test_what_one_slice_has_answered_is_asked_of_no_other(client: Scripted) -> None:
    client.open(b"jobs", 7)
    home = client.asked[-1][0]
    assert client.say(b"touch jobs 60\r\n", b"TOUCHED\r\n") == b"TOUCHED\r\n"
    assert [number for number, _ in client.asked] == [home]
    assert client.say(b"delete jobs/id=7\r\n", b"DELETED\r\n") == b"DELETED\r\n"
    assert len(client.asked) == 1
    for _ in range(2):
        client.many.sliced_queues.order(b"jobs")  # until it is the turn of that slice
    said = b"VALUE jobs/close/open 0 1 8\r\ny\r\nEND\r\n"
    assert client.say(b"gets jobs/close/open\r\n", said) == said
    assert [number for number, _ in client.asked] == [home]


def test_a_peek_that_waited_shows_one_item_and_gives_nothing_back(client: Scripted) -> None:
    client.talk.feed(b"get jobs/peek/t=5s\r\n")
    for _ in range(3):
        ((number, _),), client.talk.sent = client.talk.sent, []
        client.talk.heard(number, END)
    client.talk.sent = []
    for number in (1, 2):
        client.talk.heard(number, b"VALUE jobs/peek 0 1 %d\r\n%d\r\nEND\r\n" % (number, number))
    client.talk.sent = []
    client.talk.heard(3, END)
    assert b"".join(client.talk.out) == b"VALUE jobs/peek/t=5s 0 1\r\n1\r\nEND\r\n"
    assert (client.talk.sent, client.talk.is_waiting) == ([], False)
