"""``kafkeep demo``: back up, lose and restore records on real services."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.output import Output, OutputOption, print_json, say

if TYPE_CHECKING:
    from kafkeep.dev import DevStatus

FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="Folder for the data of the services. [default: a new one]",
    ),
]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="Leave the services and their data in place at the end.")
]


def demo_command(
    *, folder: FolderOption = None, keep: KeepOption = False, output: OutputOption = Output.TABLE
) -> None:
    """Show kafkeep on real services: back up, delete, restore, compare.

    Starts Kafka and an S3 server on this machine and removes them at the end. On a terminal it
    waits for Enter first.

    Exits with 0 when every restored record matches, with 1 when not.
    """
    from kafkeep.demo.run import run_demo  # noqa: PLC0415 - keeps --help fast

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    waits = output is Output.TABLE and not keep and sys.stdin.isatty() and sys.stdout.isatty()
    result = run_demo(
        say if output is Output.JSON else _tell,
        folder=folder,
        keep=keep,
        linger=_linger if waits else _show_kept if keep else None,
    )
    if output is Output.JSON:
        print_json(result.to_json())
    raise typer.Exit(result.exit_code)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _linger(services: DevStatus) -> None:
    _show_services(services)
    try:
        input("\nThe services are still running. Press Enter to remove them. ")
    except EOFError:
        return


def _show_kept(services: DevStatus) -> None:
    _show_services(services)
    say("\nThe services keep running. Remove them with:")
    say(f"  kafkeep dev down --purge --folder {services.folder}")


def _show_services(services: DevStatus) -> None:
    shown: dict[str, Any] = {
        **services.s3.environment,
        "KAFKEEP_BOOTSTRAP_SERVERS": services.bootstrap_servers,
        "KAFKEEP_ARCHIVE": f"s3://{services.s3.bucket}/demo",
    }
    say("\nTo explore in another terminal:")
    for name, value in shown.items():
        say(f"  export {name}={shlex.quote(value)}")
    say("  kafkeep info")
