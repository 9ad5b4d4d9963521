"""Lines become messages: each with its number, its place and its own text."""

from __future__ import annotations

import json
import zlib

from kestrelpy.examples.messages import QUEUES, Message, messages, number_and_checksum


def test_lines_are_numbered_from_zero_and_none_is_empty() -> None:
    found = list(messages(5_000))

    assert [each.number for each in found] == list(range(5_000))
    assert all(each.text and each.text == each.text.strip() for each in found)
    assert {each.queue for each in found} == set(QUEUES.values())
    assert len({each.service for each in found}) > 1


def test_a_message_is_what_a_log_would_say() -> None:
    message = Message(7, "json", "ERROR", 'raise "ä" \U0001f600')

    said = json.loads(message.body())

    assert said.pop("timestamp")[:2] == "20"
    assert said == {"number": 7, "level": "ERROR", "service": "json", "message": message.text}
    assert number_and_checksum(message.body()) == (7, message.checksum)
    assert message.checksum == zlib.crc32(message.text.encode())
