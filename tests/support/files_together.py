"""Which process of a run has which tests: those of a file, or of a group of folders, stay together.

One rule: every test is handed out until it has a result, and none twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController


class FilesTogether(LoadFileScheduling):
    """A file is run by one process, so that what its tests share is made once."""

    def __init__(
        self, config: pytest.Config, log: object, together: Sequence[tuple[str, ...]] = ()
    ) -> None:
        """`together` has the groups of folders: one process runs all of a group."""
        super().__init__(config, log)  # type: ignore[arg-type]  # of a module of xdist's own
        self._together = together

    def _split_scope(self, nodeid: str) -> str:
        """Return what is run by one process: the file of this test, or a group."""
        scope: str = super()._split_scope(nodeid)
        return next((group[0] for group in self._together if scope.startswith(group)), scope)

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a process that has ended out; return the test that ended it, None if it was done.

        What is done is not handed out again, nor is that test. xdist does both, and then waits for
        ever for an answer about files of which nothing is left.
        """
        files = self.assigned_work[node]
        left = [(file, test) for file, tests in files.items() for test, done in tests.items()
                if not done]  # fmt: skip
        if left:
            file, test = left[0]
            files[file][test] = True
        for file in [file for file, tests in files.items() if all(tests.values())]:
            del files[file]
        super().remove_node(node)
        return left[0][1] if left else None
