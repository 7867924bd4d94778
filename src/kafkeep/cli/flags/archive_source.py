"""What a command reads: the logs of an archive, or a bucket without a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.flags.declared import flag, with_flags
from kafkeep.cli.flags.shared import (
    ARCHIVE_FLAGS,
    ArchiveLocation,
    ConnectorConfigOption,
    SetOption,
    archive_location,
    unlogged_options,
)
from kafkeep.options.restore import RestoreOptions

if TYPE_CHECKING:
    from kafkeep.archive.object_store import ObjectStore
    from kafkeep.archive.view import ArchiveView
    from kafkeep.options.selection import LogOptions
    from kafkeep.options.unlogged import UnloggedOptions

NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="LOG",
        help="Read this log of the archive. Default: all logs; cat needs the name if there are "
        "several.",
    ),
]


def _split_names(given: list[str] | None) -> list[str] | None:
    """Split ``a,b`` in each value: no topic has a comma in its name."""
    if given is None:
        return None
    return [name for text in given for part in text.split(",") if (name := part.strip())]


TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        "--topic",
        "-t",
        metavar="NAMES",
        callback=_split_names,
        help="Only these topics, as a,b,c. May be repeated. Default: all topics.",
    ),
]

PartitionsOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only this partition. May be repeated."),
]


@dataclass(frozen=True, kw_only=True)
class ArchiveSource:
    """What a command reads: the logs of an archive, or a bucket without a log."""

    location: ArchiveLocation
    name: str | None
    connector_config: str | None
    settings: tuple[str, ...]

    def open(self) -> tuple[ObjectStore, UnloggedOptions | None]:
        """Open the store; for a bucket without a log also return how to read its objects."""
        from kafkeep.objects.choose_log import without_log  # noqa: PLC0415 - keeps --help fast

        options = unlogged_options(self.connector_config, self.settings)
        store = self.location.open()
        return store, without_log(store, self.name, options)


def reads_archive(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of an archive source; it takes them as ``source``."""
    flags = [
        *ARCHIVE_FLAGS,
        flag("name", NameOption),
        flag("connector_config", ConnectorConfigOption),
        flag("settings", SetOption),
    ]

    def make(given: dict[str, Any]) -> ArchiveSource:
        return ArchiveSource(
            location=archive_location(given),
            name=given["name"],
            connector_config=given["connector_config"],
            settings=tuple(given["settings"] or ()),
        )

    decorated: Callable[..., Any] = with_flags("source", flags, make, first=True)(command)
    return decorated


def load_log_view(store: ObjectStore, options: LogOptions) -> ArchiveView:
    """Load the state of one log: the one named, or the only one, as of the commit asked for."""
    from kafkeep.archive.view import load_view  # noqa: PLC0415 - keeps --help fast
    from kafkeep.restore.source import choose_log  # noqa: PLC0415

    commit, at_ms = options.commit, options.at_ms
    log = choose_log(store, RestoreOptions(name=options.name, commit=commit, at_ms=at_ms))
    return load_view(store, log, commit=commit, at_ms=at_ms)
