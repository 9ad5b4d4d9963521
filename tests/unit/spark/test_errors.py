"""An error of ours reaches the user through Spark with its sentence unchanged."""

from __future__ import annotations

import os

import pytest

from kestrelpy.spark.errors import KestrelError, one_sentence, sentence_of

PLANNER = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source: Traceback (most ...):
  File "/x/batch.py", line 33, in schema
    raise KestrelError("There is no option a.")
kestrelpy.spark.KestrelError: There is no option a. Did you mean b?
 SQLSTATE: 38000"""
EXECUTOR = """An error occurred while calling o71.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (localhost executor driver): org.apache.spark.api.python.PythonException: kestrelpy.spark.KestrelError: The server a:1 cannot be reached: refused. Start it.

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:646)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLANNER, "There is no option a. Did you mean b?"),
        (EXECUTOR, "The server a:1 cannot be reached: refused. Start it."),
        ("Traceback ...\n  File x\nValueError: no such thing\n", "ValueError: no such thing"),
        (
            "An error occurred while calling o7.load.\n: java.Foo$BarException: no room\n\tat x",
            "no room",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03", "[PATH_NOT_FOUND] Path"),
    ],
)
def test_the_sentence_is_found_in_whatever_spark_wraps_around_it(text: str, said: str) -> None:
    assert sentence_of(RuntimeError(text)).startswith(said)
    assert "\n" not in sentence_of(RuntimeError(text))


def test_an_error_without_words_has_a_name() -> None:
    assert sentence_of(RuntimeError()) == "RuntimeError"


def test_our_errors_are_one_line_that_can_be_printed() -> None:
    assert str(KestrelError("a\n  b \udcff")) == "a b \\udcff"


def test_an_error_of_ours_leaves_a_worker_without_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)

    with pytest.raises(ZeroDivisionError), one_sentence():
        _ = 1 // 0
    assert "SPARK_HIDE_TRACEBACK" not in os.environ

    with pytest.raises(KestrelError) as caught, one_sentence(LookupError):
        raise KeyError("what is wrong")
    assert os.environ.pop("SPARK_HIDE_TRACEBACK") == "1"
    assert caught.value.__suppress_context__
