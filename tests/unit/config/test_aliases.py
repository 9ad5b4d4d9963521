"""Aliases in the file: one name for several queues."""

from pathlib import Path

import pytest

from tests.unit.config.files import load_text, problems_of


def test_an_alias_names_queues_and_children(file: Path) -> None:
    config = load_text(file, '[aliases.all]\nto = ["mail", "orders+audit"]\n')

    assert config.aliases["all"].to == ("mail", "orders+audit")


FORM = (
    ', but must be a list of 1 to 64 different queues or children, say ["mail", "orders+audit"].'
)


@pytest.mark.parametrize(
    "to", ['"mail"', "[]", '["mail", "mail"]', "[5]", '["a b"]', '["a+b+c"]', '["x/y"]']
)
def test_an_invalid_list_is_reported(file: Path, to: str) -> None:
    assert problems_of(file, f"[aliases.all]\nto = {to}\n").endswith(FORM)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[aliases.all]\n", "[aliases.all] must have to."),
        ('[aliases."a+b"]\nto = ["x"]\n', "an alias's name has no +: it is no queue and has no ch"),
        ('[aliases."a b"]\nto = ["x"]\n', "an alias's name must be 1 to 128 printable ASCII"),
        ('[aliases.all]\ntoo = ["x"]\n', "is not a known key; the nearest is to; allowed are to."),
        ('[aliases.a]\nto = ["a"]\n', "[aliases.a] to names itself: an alias stands for queues."),
        (
            '[aliases.a]\nto = ["b"]\n[aliases.b]\nto = ["a"]\n',
            "[aliases.a] to names b, but [aliases.b] is no queue: name its queues.",
        ),
        (
            '[aliases.a]\nto = ["b+c"]\n[aliases.b]\nto = ["d"]\n',
            "[aliases.a] to names b+c, but [aliases.b] is no queue: name its queues.",
        ),
        (
            '[aliases.a]\nto = ["b"]\n[queues.a]\nlease = "1s"\n',
            "[queues.a] is a queue and [aliases.a] an alias: one name cannot be both.",
        ),
        (
            '[aliases.a]\nto = ["b"]\n[queues."a+c"]\nlease = "1s"\n',
            '[queues."a+c"] is a queue and [aliases.a] an alias: one name cannot be both.',
        ),
        (
            '[aliases.a]\nto = ["b"]\n[queues.c]\ndead_letter_to = "a"\n',
            '[queues.c] dead_letter_to = "a" must name a queue, and it is an alias.',
        ),
        (
            '[aliases.a]\nto = ["b"]\n[schedules.s]\ncron = "* * * * *"\nqueue = "a"\n',
            '[schedules.s] queue = "a" must name a queue, and it is an alias.',
        ),
    ],
)
def test_an_alias_stands_nowhere_where_a_queue_has_to(file: Path, text: str, problem: str) -> None:
    said = problems_of(file, text)
    assert said.startswith(f"{file}: ")
    assert problem in said
