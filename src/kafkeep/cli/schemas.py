"""``kafkeep schemas``: the schemas of a registry, as an archive keeps them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.archive_flags import (
    ArchiveLocation,
    AtOption,
    CommitOption,
    NameOption,
    with_archive,
)
from kafkeep.cli.output import Output, OutputOption, print_json, print_table
from kafkeep.errors import NoSuchArchiveError, UsageError

if TYPE_CHECKING:
    from kafkeep.archive.schemas import SchemaSet
    from kafkeep.archive.view import ArchiveView

app = typer.Typer(
    help="Schemas of a registry, as an archive keeps them: list, show.", no_args_is_help=True
)

_Wanted = Annotated[
    str, typer.Argument(metavar="SUBJECT|ID", help="A subject, or the id that records bear.")
]
_Version = Annotated[
    int | None,
    typer.Option("--version", metavar="N", help="This version of the subject. Default: the last."),
]


@app.command("list")
@with_archive
def list_command(
    *,
    archive: ArchiveLocation,
    name: NameOption = None,
    commit: CommitOption = None,
    at: AtOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List subjects, versions, ids and compatibility. Exits 0, or 10 where there are no schemas."""
    view, found = _load(archive, name, commit, at)
    rows = [
        (
            subject,
            one.version,
            one.id,
            found.schemas[one.id].type,
            ", ".join(f"{r.subject} {r.version}" for r in found.schemas[one.id].references),
            found.subjects[subject].compatibility,
            one.deleted,
        )
        for subject, one in found.versions()
    ]
    names = ("subject", "version", "id", "type", "references", "compatibility", "deleted")
    if output is Output.JSON:
        told = {"log": view.name, "commit": view.commit, "document": view.schemas}
        versions = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({**told, "compatibility": found.compatibility, "versions": versions})
        return
    print_table(names, rows)


@app.command("show")
@with_archive
def show_command(
    *,
    wanted: _Wanted,
    archive: ArchiveLocation,
    version: _Version = None,
    name: NameOption = None,
    commit: CommitOption = None,
    at: AtOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the text of one schema. Exits 0, or 10 where there is none.

    A subject that is called like a number is found by its name first.
    """
    _, found = _load(archive, name, commit, at)
    id = _find(found, wanted, version)
    if output is Output.JSON:
        users = [(subject, one) for subject, one in found.versions() if one.id == id]
        told: list[dict[str, Any]] = [
            {"subject": subject, "version": one.version, "deleted": one.deleted}
            for subject, one in users
        ]
        print_json({"id": id, **found.schemas[id].to_json(), "versions": told})
        return
    sys.stdout.write(found.schemas[id].text.rstrip("\n") + "\n")


def _load(
    archive: ArchiveLocation, name: str | None, commit: int | None, at: str | None
) -> tuple[ArchiveView, SchemaSet]:
    from kafkeep.archive.schemas import load_schemas  # noqa: PLC0415
    from kafkeep.archive.view import load_view  # noqa: PLC0415 - keeps --help fast
    from kafkeep.options.restore import RestoreOptions  # noqa: PLC0415
    from kafkeep.options.units import parse_time  # noqa: PLC0415
    from kafkeep.restore.source import choose_log  # noqa: PLC0415

    store = archive.open()
    at_ms = parse_time(at) if at is not None else None
    log = choose_log(store, RestoreOptions(name=name, commit=commit, at_ms=at_ms))
    view = load_view(store, log, commit=commit, at_ms=at_ms)
    if not view.schemas:
        raise NoSuchArchiveError(
            f"commit {view.commit} of {view.name} names no schemas",
            hint="They are kept by kafkeep backup --schema-registry URL.",
        )
    return view, load_schemas(store, view.name, view.schemas)


def _find(found: SchemaSet, wanted: str, version: int | None) -> int:
    from kafkeep.options.option import did_you_mean  # noqa: PLC0415

    subject = found.subjects.get(wanted)
    if subject is None:
        if wanted.isdecimal() and int(wanted) in found.schemas:
            if version is not None:
                raise UsageError("--version is for a subject, not for an id")
            return int(wanted)
        near = did_you_mean(wanted, found.subjects)
        raise NoSuchArchiveError(f"there is no subject and no id {wanted}", hint=near or None)
    one = subject.versions[-1] if version is None else subject.find(version)
    if one is None:
        there = ", ".join(str(v.version) for v in subject.versions)
        raise NoSuchArchiveError(f"{wanted} has no version {version}", hint=f"It has: {there}.")
    return one.id
