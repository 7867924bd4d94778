"""A report that was asked for is written also when what it is of ends in an error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkeep.cli.failure import error_document, error_of
from kafkeep.cli.output import say
from kafkeep.clock import now_ms
from kafkeep.errors import EnvironmentFault


@contextmanager
def failure_reported(
    report: str, file: Path | None, *, archive: str, bootstrap: str | None = None
) -> Iterator[None]:
    """Write what the body fails with to ``file``, if there is one; the error goes on.

    ``report`` is what reports of it say they are: drill, restore, verify or verify-against.
    """
    began_ms, began = now_ms(), time.monotonic()
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if file is None:
            raise
        from kafkeep.care.report import write_report  # noqa: PLC0415
        from kafkeep.care.report_failed import failed_page  # noqa: PLC0415

        page = failed_page(
            report,
            error_document(error_of(error)),
            archive=archive,
            bootstrap=bootstrap,
            began_ms=began_ms,
            seconds=time.monotonic() - began,
        )
        try:
            write_report(page, file)
        except EnvironmentFault as unwritten:
            say(f"warning: {unwritten.message}")
        raise
