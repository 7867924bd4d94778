"""Progress bars on a terminal. Loaded only where one is shown."""

from __future__ import annotations

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


class _Rate(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        """Show the current speed."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")


@contextmanager
def show_bar(what: str, *, rate: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr; with ``rate`` also the rate and the time left."""
    timing = (_Rate(), TimeRemainingColumn()) if rate else (TimeElapsedColumn(),)
    columns = (SpinnerColumn(), TextColumn(what), BarColumn(), MofNCompleteColumn(), *timing)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total or None)

        yield update
