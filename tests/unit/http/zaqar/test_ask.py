"""Values of a request are read as the clients send them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from starlette.requests import Request

from kestrelpy.config import ServerConfig
from kestrelpy.http.answers import HttpError
from kestrelpy.http.zaqar.ask import Ask, decoded, several, truth
from tests.support.zaqar import CLIENT


def ask(query: str = "", **headers: str) -> Ask:
    given = {"client_id": CLIENT, "x_project_id": "acme", **headers}
    call = SimpleNamespace(host=SimpleNamespace(server_settings=ServerConfig()))
    return Ask(Request({
        "type": "http", "method": "GET", "path": "/v2/queues/jobs", "call": call,
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
        "query_string": query.encode(), "path_params": {"queue": "jobs"},
        "said": dict(parse_qsl(query)),
    }))  # fmt: skip


def test_a_client_is_the_same_in_every_form_of_its_uuid() -> None:
    forms = {CLIENT, CLIENT.upper(), CLIENT.replace("-", ""), f"{{{CLIENT}}}"}
    assert {ask(client_id=form).client for form in forms} == {CLIENT.replace("-", "").encode()}


def test_lists_come_in_both_forms_each_value_once() -> None:
    assert several(ask("ids=a&ids=b,c&ids=a").request, "ids") == ("a", "b", "c")


@pytest.mark.parametrize("word", ["True", "true", "1", "yes", "ON"])
def test_truth_is_written_in_several_ways(word: str) -> None:
    assert truth(ask(f"echo={word}").request, "echo")
    assert not truth(ask("echo=NO").request, "echo")


def test_a_queue_has_its_project_before_its_name() -> None:
    assert ask().name == b"acme:jobs"
    assert ask(x_project_id="a/b").name == b"a%2Fb:jobs"


def test_the_next_question_is_the_same_one_from_another_marker() -> None:
    marker = quote("a b&c")
    assert ask(f"limit=5&marker=old&echo=True&x={marker}").next_href("/p", "9-9") == (
        "/p?limit=5&echo=True&x=a+b%26c&marker=9-9"
    )


def test_whole_numbers_of_64_bits_are_read_and_larger_ones_refused() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    body = f'{{"a":[{least},{{"b":{most}}}],"c":"{1 << 70}"}}'.encode()
    found: Any = decoded(body, dict[str, Any])
    assert found["a"] == [least, {"b": most}]
    for number in (least - 1, most + 1, 10**30):
        with pytest.raises(HttpError):
            decoded(b'{"a":[%d]}' % number, dict[str, Any])
