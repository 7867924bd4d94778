"""``--quiet`` and ``--verbose``: how much a command prints on stderr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from kafkeep.cli.flags.declared import flag, with_flags
from kafkeep.cli.output import Talk, set_talk
from kafkeep.errors import UsageError

_QUIET = flag(
    "quiet",
    Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="Print only errors on stderr: no warnings, no progress."
        ),
    ],
    False,
)
_VERBOSE = flag(
    "verbose",
    Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print on stderr what is done, in detail.")
    ],
    False,
)


def with_quiet(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--quiet``."""
    decorated: Callable[..., Any] = with_flags(None, [_QUIET], _apply)(command)
    return decorated


def with_verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--quiet`` and ``--verbose``; it prints details with ``detail``."""
    decorated: Callable[..., Any] = with_flags(None, [_QUIET, _VERBOSE], _apply)(command)
    return decorated


def _apply(given: dict[str, Any]) -> None:
    quiet, verbose = given["quiet"], given.get("verbose", False)
    if quiet and verbose:
        raise UsageError("--quiet and --verbose cannot both be given")
    set_talk(Talk.QUIET if quiet else Talk.VERBOSE if verbose else Talk.NORMAL)
