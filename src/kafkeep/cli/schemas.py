"""``kafkeep schemas``: the schemas that an archive keeps of a registry."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.flags import ArchiveLocation, load_log_view, with_archive, with_options
from kafkeep.cli.output import Output, OutputOption, print_json, print_table
from kafkeep.errors import NoSuchArchiveError, UsageError
from kafkeep.options.selection import LogOptions

if TYPE_CHECKING:
    from kafkeep.archive.schemas import SchemaSet
    from kafkeep.archive.view import ArchiveView

app = typer.Typer(help="List and show the archived schemas of a registry.", no_args_is_help=True)

_Wanted = Annotated[str, typer.Argument(metavar="SUBJECT|ID", help="A subject, or a schema id.")]
_Version = Annotated[
    int | None,
    typer.Option("--version", metavar="N", help="Version of the subject. Default: the last one."),
]


@app.command("list")
@with_archive
@with_options(LogOptions)
def list_command(
    *, archive: ArchiveLocation, output: OutputOption = Output.TABLE, options: LogOptions
) -> None:
    """List subjects, versions, ids and compatibility.

    Exits with 0, or with 10 when the archive has no schemas.
    """
    view, found = _load(archive, options)
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
        origin = {"log": view.name, "commit": view.commit, "document": view.schemas}
        versions = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({**origin, "compatibility": found.compatibility, "versions": versions})
        return
    print_table(names, rows)


@app.command("show")
@with_archive
@with_options(LogOptions)
def show_command(
    *,
    wanted: _Wanted,
    archive: ArchiveLocation,
    version: _Version = None,
    output: OutputOption = Output.TABLE,
    options: LogOptions,
) -> None:
    """Print the text of one schema.

    If a subject has a number as its name, the subject wins over the id.

    Exits with 0, or with 10 when there is no such schema.
    """
    _, found = _load(archive, options)
    id = _find(found, wanted, version)
    if output is Output.JSON:
        users = [(subject, one) for subject, one in found.versions() if one.id == id]
        versions: list[dict[str, Any]] = [
            {"subject": subject, "version": one.version, "deleted": one.deleted}
            for subject, one in users
        ]
        print_json({"id": id, **found.schemas[id].to_json(), "versions": versions})
        return
    sys.stdout.write(found.schemas[id].text.rstrip("\n") + "\n")


def _load(archive: ArchiveLocation, options: LogOptions) -> tuple[ArchiveView, SchemaSet]:
    from kafkeep.archive.schemas import load_schemas  # noqa: PLC0415 - keeps --help fast

    store = archive.open()
    view = load_log_view(store, options)
    if not view.schemas:
        raise NoSuchArchiveError(
            f"commit {view.commit} of {view.name} has no schemas",
            hint="Archive them with kafkeep backup --schema-registry URL.",
        )
    return view, load_schemas(store, view.name, view.schemas)


def _find(found: SchemaSet, wanted: str, version: int | None) -> int:
    from kafkeep.options.option import did_you_mean  # noqa: PLC0415

    subject = found.subjects.get(wanted)
    if subject is None:
        if wanted.isdecimal() and int(wanted) in found.schemas:
            if version is not None:
                raise UsageError("--version needs a subject, not an id")
            return int(wanted)
        near = did_you_mean(wanted, found.subjects)
        raise NoSuchArchiveError(f"there is no subject and no id {wanted}", hint=near or None)
    one = subject.versions[-1] if version is None else subject.find(version)
    if one is None:
        there = ", ".join(str(v.version) for v in subject.versions)
        raise NoSuchArchiveError(f"{wanted} has no version {version}", hint=f"It has: {there}.")
    return one.id
