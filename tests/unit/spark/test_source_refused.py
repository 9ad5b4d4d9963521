"""A stream that cannot be says why at Spark's first question, on an older PySpark as well."""

from __future__ import annotations

import sys
from typing import Any, cast

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.source import KestrelSource, RefusedReader

NO_COLUMNS = StructType()


def sentences(reader: object) -> set[str]:
    """Return the errors of all its methods; PySpark 4.1 calls `latestOffset` without arguments."""
    assert isinstance(reader, RefusedReader)
    said = set()
    for ask in (
        reader.initialOffset, reader.latestOffset, lambda: reader.latestOffset({}, None),
        lambda: reader.partitions({}, {}), lambda: reader.read(InputPartition(0)),
    ):  # fmt: skip
        with pytest.raises(KestrelError) as caught:
            ask()
        said.add(str(caught.value))
    return said


def test_a_pyspark_without_streams_of_this_kind_is_named_with_the_one_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "kestrelpy.spark.stream", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", cast(Any, None))
    monkeypatch.setattr("pyspark.__version__", "4.1.0")

    reader = KestrelSource({"servers": "a:1", "queues": "jobs"}).streamReader(NO_COLUMNS)

    assert sentences(reader) == {
        "Streams from queues need PySpark 4.2, and this is 4.1.0. Install it: pip install "
        "'pyspark>=4.2'; reads and writes of batches, and streams into queues, go on with this one."
    }


def test_a_wrong_option_is_said_in_the_same_way() -> None:
    reader = KestrelSource({"server": "a:1"}).streamReader(NO_COLUMNS)

    assert sentences(reader) == {"There is no option server. Did you mean servers?"}
