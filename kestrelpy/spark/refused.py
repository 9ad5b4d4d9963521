"""A stream that says what is wrong with it at Spark's first question, and does nothing else.

Spark hides an error of `streamReader` itself behind one of its own (UnboundLocalError).

One rule: it needs nothing that PySpark 4.1 has not, as it says that 4.1 is too old for streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kestrelpy.spark.errors import KestrelError, one_sentence

if TYPE_CHECKING:
    import pyarrow as pa


class RefusedReader(DataSourceStreamReader):
    """Raises its sentence, whatever Spark asks."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence

    def _refuse(self) -> NoReturn:
        with one_sentence():
            raise KestrelError(self.sentence)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Raise the error."""
        self._refuse()

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Raise the error; PySpark 4.1 asks without arguments."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the error."""
        self._refuse()
