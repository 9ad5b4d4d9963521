"""A segment's number is given once: of two files of one number, archives and backups tell a lie."""

from __future__ import annotations

import pytest

from journal.format.record import HEADER_BYTES
from journal.format.segment import COMPACTED, FILE_HEADER_BYTES, SegmentHeader, segment_number
from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from tests.support import server_harness
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

BODY = b"." * 40


class Seen:
    """The headers of all segments that ever were, by number."""

    def __init__(self) -> None:
        self.headers: dict[int, SegmentHeader] = {}

    def look(self, stage: ServerHarness) -> int:
        """Look at the present files; return how many compacted segments there are."""
        folder, survivors = log_of(stage).journal.folder, 0
        for name in stage.disk.names(folder):
            if (number := segment_number(name)) is None:
                continue
            path = f"{folder}/{name}"
            header = SegmentHeader.decode(stage.disk.read(path, 0, FILE_HEADER_BYTES), path)
            assert header is not None
            if not any(stage.disk.read(path, FILE_HEADER_BYTES, HEADER_BYTES)):
                continue  # a preallocated one: a start may remove it, and nothing was ever in it
            assert self.headers.setdefault(number, header) == header, f"{number} was another file"
            survivors += header.role == COMPACTED
        return survivors


def log_of(stage: ServerHarness) -> JournalLog:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log


@pytest.mark.parametrize("ends", [["kill"], ["restart", "kill"], ["restart", "kill", "kill"]])
def test_after_compacted_segments_are_done_too_their_number_is_not_given_again(
    ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(2048, 4096, 1 << 20))
    stage, seen, rewritten = ServerHarness(), Seen(), 0
    for number in range(60):
        later = b"/delay=1s" if number % 8 == 0 else b""
        said = stage.say("prod", b"set jobs%b 0 0 40\r\n%b" % (later, BODY))
        assert said == b"STORED\r\n"
    while stage.say("cons", b"get jobs").startswith(b"VALUE"):
        pass
    for _ in range(3):
        tidy(stage, log_of(stage))
        rewritten += seen.look(stage)
    assert rewritten
    stage.pass_time(2000)
    while stage.say("cons", b"get jobs").startswith(b"VALUE"):
        pass
    for _ in range(3):
        tidy(stage, log_of(stage))
        seen.look(stage)
    for end in ends:
        stage.pass_time(5)
        getattr(stage, end)()
        seen.look(stage)
    for _ in range(200):
        assert stage.say("prod", b"set jobs 0 0 40\r\n%b" % BODY) == b"STORED\r\n"
        assert stage.say("cons", b"get jobs").startswith(b"VALUE")
        seen.look(stage)
    tidy(stage, log_of(stage))
    assert seen.look(stage) == 0, "they go once the log is past their number"
