"""Flags and first steps of the commands that look at an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.places import storage_options

if TYPE_CHECKING:
    from kafkeep.archive.store import ObjectStore

NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="LOG",
        help="One log of the archive. Default: all of them; for cat the only one.",
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="This topic alone; may be repeated."),
]

PartitionsOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="This partition alone; may be repeated."),
]


def open_archive(
    address: str, endpoint: str | None, region: str | None, profile: str | None
) -> ObjectStore:
    """Open the store an archive lies in."""
    from kafkeep.store.open import open_store  # noqa: PLC0415 - keeps --help fast

    return open_store(address, storage_options(endpoint, region, profile))


def when(time_ms: int | None) -> str:
    """Write a time for people, or a dash."""
    from kafkeep.config.units import format_time  # noqa: PLC0415

    return "-" if time_ms is None else format_time(time_ms)
