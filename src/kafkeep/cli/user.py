"""``kafkeep user``: a line for the users of the REST API."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer


def user_command(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    *,
    role: Annotated[
        str, typer.Option("--role", help="What the user may do: read, operate or admin.")
    ] = "read",
) -> None:
    """Print a user's line for the file of kafkeep.rest.users.file; the password is asked for.

    Without a terminal it is the first line of the input.
    """
    from kafkeep.connect.worker.users import user_line  # noqa: PLC0415 - keeps --help fast

    asked = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    typer.echo(user_line(name, role, asked))
