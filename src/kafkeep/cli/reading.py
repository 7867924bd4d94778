"""Flags and first steps of the commands that look at an archive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.flags import flag, with_flags
from kafkeep.cli.places import (
    ARCHIVE_FLAGS,
    ArchivePlace,
    ConnectorConfigOption,
    SetOption,
    archive_place,
)

if TYPE_CHECKING:
    from kafkeep.archive.store import ObjectStore
    from kafkeep.config.foreign import ForeignOptions

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

CommitOption = Annotated[
    int | None, typer.Option("--commit", min=0, metavar="N", help="As of this commit.")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="As of the last commit made by this time."),
]
PartitionsOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="This partition alone; may be repeated."),
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a command looks at: a log of an archive, or objects that no log names."""

    place: ArchivePlace
    name: str | None
    connector_config: str | None
    settings: tuple[str, ...]

    def open(self) -> tuple[ObjectStore, ForeignOptions | None]:
        """Open the store; where it has no log, also say how its objects are read."""
        from kafkeep.cli.foreign import foreign_options  # noqa: PLC0415 - keeps --help fast
        from kafkeep.contents.foreign.find import without_log  # noqa: PLC0415

        told = foreign_options(self.connector_config, self.settings)
        store = self.place.open()
        return store, without_log(store, self.name, told)


def reads_archive(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags that say what it looks at; it takes them as ``reading``."""
    flags = [
        *ARCHIVE_FLAGS,
        flag("name", NameOption),
        flag("connector_config", ConnectorConfigOption),
        flag("settings", SetOption),
    ]

    def make(given: dict[str, Any]) -> Reading:
        return Reading(
            place=archive_place(given),
            name=given["name"],
            connector_config=given["connector_config"],
            settings=tuple(given["settings"] or ()),
        )

    decorated: Callable[..., Any] = with_flags("reading", flags, make, first=True)(command)
    return decorated


def when(time_ms: int | None) -> str:
    """Write a time for people, or a dash."""
    from kafkeep.config.units import format_time  # noqa: PLC0415

    return "-" if time_ms is None else format_time(time_ms)
