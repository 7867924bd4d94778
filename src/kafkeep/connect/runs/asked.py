"""What runs on an archive are asked for: options, as the command line declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.errors import NoSuchArchiveError
from kafkeep.options.option import ConfigErrors, did_you_mean, iter_options, option, parse_group

T = TypeVar("T")
ARCHIVE = "archive.id"
"""Not the address: the worker restricts the addresses that callers may name."""
SCHEDULE, DUE = "schedule", "due"
"""Which schedule started a run, and for which time."""


@dataclass(frozen=True, kw_only=True)
class ArchiveChoice:
    """The archive that a run is about."""

    archive_id: str = option("archive.id", "The id of the archive.", metavar="ID")


def parse_asked(asked: Mapping[str, str], group: type[T]) -> tuple[ArchiveChoice, T]:
    """Return the archive and the options of ``group``; ConfigErrors for anything else.

    An empty value is the default, as in a form that was left empty.
    """
    given = {key: text for key, text in asked.items() if text.strip()}
    known = [one.name for part in (ArchiveChoice, group) for one in iter_options(part)]
    wrong = {
        key: did_you_mean(key, known) or "there is no such option"
        for key in given
        if key not in (*known, SCHEDULE, DUE)
    }
    if wrong:
        raise ConfigErrors(wrong)
    return parse_group(ArchiveChoice, given), parse_group(group, given)


def check_archive(archives: Archives, id: str, log: str | None) -> None:
    """Refuse an archive that no connector uses, or that lacks the log; without one, any log."""
    place = archives.place(id)
    if log is not None:
        archives.log(place, log)
    elif not archives.log_names(place):
        raise NoSuchArchiveError(
            f"{place.address} has no log yet", hint="Wait for the first commit of a connector."
        )
