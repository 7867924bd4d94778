"""Progress bars on a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

OnProgress = Callable[[int, int], None]


class _Rate(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        """Show the speed of late."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")


@contextmanager
def task_progress(what: str, *, enabled: bool) -> Iterator[OnProgress | None]:
    """Show tasks done of tasks planned."""
    with _bar(what, enabled, MofNCompleteColumn(), TimeElapsedColumn()) as update:
        yield update


@contextmanager
def record_progress(what: str, *, enabled: bool) -> Iterator[OnProgress | None]:
    """Show records written, the rate and the time left."""
    with _bar(what, enabled, MofNCompleteColumn(), _Rate(), TimeRemainingColumn()) as update:
        yield update


@contextmanager
def _bar(what: str, enabled: bool, *columns: ProgressColumn) -> Iterator[OnProgress | None]:
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn(what), BarColumn(), *columns, console=console, transient=True
    ) as progress:
        task = progress.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total or None)

        yield update
