"""Where items go from queue to queue (`expire_to`, `dead_letter_to`), and that they arrive.

    jobs ──dead_letter_to──▶ failed ──expire_to──▶ old        and never back to jobs

A queue without a block of its own has the defaults, the target of the defaults, too.

One rule: a circle is refused where it is made, with every queue on it named.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kestrelpy.config.settings import Config, QueueBlock

KEYS: Final = ("expire_to", "dead_letter_to")


class Circle(NamedTuple):
    """Queues that move items in a circle, the first one again at the end.

    `key` is the setting of the first one that leads to the second.
    """

    names: tuple[str, ...]
    key: str

    @property
    def why(self) -> str:
        """What is wrong, behind the setting as it is written and "but"."""
        return f"that leads in a circle: {self.path}"

    @property
    def path(self) -> str:
        """`a -> b -> a`."""
        return " -> ".join(self.names)


def find_circle(
    config: Config, starts: Iterable[bytes], declared: Callable[[bytes], QueueBlock | None]
) -> Circle | None:
    """A circle that can be reached from one of these queues; None: there is none.

    `declared` is what a client declared for a queue, if that is known.
    """
    def targets(name: str) -> list[tuple[str, str]]:
        settings = config.queue(name.encode(), declared(name.encode()))
        return [(key, to) for key in KEYS if (to := getattr(settings, key)) is not None]

    done: set[str] = set()
    for start in starts:
        # The way to where we are, each with the settings that still have to be followed.
        trail = {(name := start.decode("ascii", "replace")): targets(name)}
        while trail:
            name, left = next(reversed(trail.items()))
            if not left or name in done:
                done.add(name)
                del trail[name]
                continue
            _, target = left.pop(0)
            if target in trail:
                names = [*trail]
                circle = (*names[names.index(target) :], target)
                key = next(key for key, to in targets(target) if to == circle[1])
                return Circle(circle, key)
            trail[target] = targets(target)
    return None
