"""The page: whole, alone, the same for eyes and ears, and deaf to what names of queues say."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from kestrelpy.spark.jobs.report.page import page
from tests.support.figures import START_MS, make_figures

pytestmark = pytest.mark.slow

EVIL = '<script>alert("x")</script>&\'"<img/src=x>'
VOID = {"meta", "br", "img", "input", "link"}


class Outline(HTMLParser):
    """A page as a browser finds it: elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for each, attrs in self.elements if each == tag]


def make_page(*names: str, whole: bool = True, title: str = "Queues") -> str:
    return page(make_figures(*names, whole=whole), title, START_MS, "Percentiles are near.")


@pytest.fixture(scope="module")
def plain() -> str:
    return make_page("jobs", "mail")


def test_every_element_is_closed_and_every_queue_is_named(plain: str) -> None:
    outline = Outline(plain)

    assert outline.open == []
    text = " ".join(outline.text)
    for said in ("jobs", "mail", "the other 1 queue", "Where the history begins", "abort"):
        assert said in text


def test_names_of_users_are_never_markup() -> None:
    hostile = Outline(make_page(EVIL, title=EVIL))
    tame = Outline(make_page("x", title="x"))

    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in tame.elements]
    assert [sorted(attrs) for _, attrs in hostile.elements] == [
        sorted(attrs) for _, attrs in tame.elements
    ]
    assert EVIL in "".join(hostile.text)
    assert hostile.all("script") == []


def test_control_characters_are_named() -> None:
    assert "a\\x1bb\\x00" in make_page("a\x1bb\x00")


def test_the_page_needs_nothing_beside_itself(plain: str) -> None:
    outline = Outline(plain)

    (policy,) = (each for each in outline.all("meta") if "http-equiv" in each)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert "http:" not in plain
    assert "https:" not in plain
    for tag in ("script", "link", "img", "iframe", "object", "form"):
        assert outline.all(tag) == []
    for _, attrs in outline.elements:
        for name in ("href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith("#")


def test_ids_are_there_once_and_links_lead_somewhere(plain: str) -> None:
    outline = Outline(plain)
    ids = [attrs["id"] for _, attrs in outline.elements if "id" in attrs]

    assert len(set(ids)) == len(ids)
    for _, attrs in outline.elements:
        for name in ("href", "xlink:href"):
            if attrs.get(name):
                assert str(attrs[name])[1:] in ids


def test_what_eyes_see_ears_hear(plain: str) -> None:
    outline = Outline(plain)

    assert outline.all("html") == [{"lang": "en"}]
    assert len(outline.all("h1")) == 1
    figures, pictures = outline.all("figure"), outline.all("svg")
    assert len(figures) == len(pictures) == 4 * 4  # all, two queues, the rest
    for picture in pictures:
        assert picture["role"] == "img"
        assert re.match(r"(Rates|Depth|Waiting|Service) of ", str(picture["aria-label"]))
    assert len(outline.all("caption")) == len(outline.all("table"))
    assert all(each["scope"] in ("col", "row") for each in outline.all("th"))


def test_a_history_that_is_not_whole_is_said_at_the_head() -> None:
    assert "no longer has its whole history" in make_page("jobs", whole=False)
    assert "whole history" not in make_page("jobs")
