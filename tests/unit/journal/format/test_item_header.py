"""What a put says of its item's id, version and origin is what was written, tag by tag."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.format.item_header import Stamp, stamp_of_put
from journal.format.kinds import Tag
from journal.format.meta import decode_meta, encode_meta
from journal.format.schedule import Nominal, nominal_of_put
from journal.format.transfer import Origin

ORIGINS = st.builds(
    Origin, st.binary(min_size=1, max_size=9).filter(lambda b: b":" not in b),
    st.binary(min_size=1, max_size=9), st.integers(1, 1 << 52), st.integers(1, 1 << 40),
    st.just(0), st.just(0),
)  # fmt: skip


@st.composite
def stamps(draw: st.DrawFn) -> Stamp:
    id_ = draw(st.binary(max_size=200))
    scope = draw(st.binary(max_size=9)) if id_ else b""
    epoch = draw(st.integers(0, 1 << 52)) if scope else 0
    version = draw(st.integers(0, 1 << 52))
    previous = draw(st.integers(0, 1 << 52)) if version else 0
    return Stamp(id_, scope, epoch, version, previous, draw(st.none() | ORIGINS))


@given(stamps(), st.integers(0, 1 << 50))
def test_a_stamp_is_read_as_it_was_written(stamp: Stamp, expires_ms: int) -> None:
    before = encode_meta({Tag.EXPIRES_MS: expires_ms}) if expires_ms else b""

    read = stamp_of_put(before + stamp.meta)

    assert read == (stamp if any(stamp) else None)


@given(stamps())
def test_its_tags_rise_and_stand_once_each(stamp: Stamp) -> None:
    tags = list(decode_meta(stamp.meta))

    assert tags == sorted(set(tags))


def test_the_time_of_a_schedule_is_no_id_and_an_id_is_no_time_of_a_schedule() -> None:
    tick = Nominal(b"nightly", 7)
    sent = Stamp(b"order-1", b"nightly", 7)

    assert stamp_of_put(tick.meta) is None
    assert nominal_of_put(sent.meta) is None
    assert stamp_of_put(tick.meta + Stamp(version=3).meta) == Stamp(version=3)
    assert nominal_of_put(tick.meta + Stamp(version=3).meta) == tick
