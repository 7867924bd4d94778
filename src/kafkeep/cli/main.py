"""The ``kafkeep`` command: its verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import select
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.exceptions import TyperException

from kafkeep import __version__
from kafkeep.cli.output import (
    Verbosity,
    complain,
    error_document,
    error_of,
    set_verbosity,
    stand_in_for_closed,
)
from kafkeep.errors import InterruptedRunError, KafkeepError, UsageError
from kafkeep.failpoint import arm_from_environment
from kafkeep.redact import install, redact

_VERBS = {
    "backup": "backup:backup_command",
    "restore": "restore:restore_command",
    "serve": "serve:serve_command",
    "register": "register:register_command",
    "user": "serve:user_command",
    "verify": "verify:verify_command",
    "drill": "drill:drill_command",
    "info": "archive.info:info_command",
    "ls": "archive.ls:ls_command",
    "du": "archive.ls:du_command",
    "commits": "archive.commits:commits_command",
    "diff": "archive.diff:diff_command",
    "gc": "gc:gc_command",
    "cat": "archive.cat:cat_command",
    "find": "archive.find:find_command",
    "doctor": "doctor:doctor_command",
    "demo": "demo:demo_command",
    "plan-capacity": "plan_capacity:plan_capacity_command",
    "man": "man:man_command",
    "groups": "groups:app",
    "schemas": "schemas:app",
    "retention": "retention:app",
    "spark": "spark:app",
    "dev": "dev:app",
}
"""Where each verb is, in the order of the help."""
_OF_ALL = ("man",)
"""Verbs that read all others."""


def build_app(verbs: Iterable[str] = _VERBS) -> typer.Typer:
    """Return the program with these verbs. Each costs the time to import its file."""
    made = typer.Typer(
        name="kafkeep",
        help="Keep Kafka topics in S3-compatible object storage, and restore them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_root)
    for verb in verbs:
        module, _, name = _VERBS[verb].partition(":")
        command = getattr(import_module(f"kafkeep.cli.{module}"), name)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=verb)
        else:
            made.command(verb)(command)
    return made


def _app_for(args: Sequence[str]) -> typer.Typer:
    """Return the program with the one verb that is called; with all for help and completion."""
    words = [word for word in args if word != "--debug"]  # other flags before the verb are help
    alone = bool(words) and words[0] in _VERBS and words[0] not in _OF_ALL
    return build_app(words[:1]) if alone else build_app()


def __getattr__(name: str) -> Any:
    """Make ``app``, the program with all verbs, when somebody asks for it."""
    if name != "app":
        raise AttributeError(name)
    globals()[name] = build_app()
    return globals()[name]


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"kafkeep {__version__}\n")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    debug: bool = typer.Option(
        False, "--debug", help="Show tracebacks and kafkeep's debug log. Credentials are masked."
    ),
) -> None:
    """Set up logging for every command."""
    os.environ["KAFKEEP_DEBUG"] = "1" if debug else ""
    set_verbosity(Verbosity.NORMAL)
    _set_up_logging(debug)
    arm_from_environment()


def _set_up_logging(debug: bool) -> None:
    """Show kafkeep's warnings; with ``--debug`` all of its log and the warnings of libraries.

    The debug output of libraries stays off: it contains requests with their credentials.
    """
    install()
    if debug:
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        logging.getLogger("kafkeep").setLevel(logging.DEBUG)
        return
    logging.getLogger().addHandler(logging.NullHandler())
    ours = logging.getLogger("kafkeep")
    ours.setLevel(logging.NOTSET)
    if not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("warning: %(message)s"))
        handler.setLevel(logging.WARNING)
        ours.addHandler(handler)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; docs/exit-codes.md lists the codes."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    wants_json = "--output=json" in args or "--output json" in " ".join(args)
    stand_in_for_closed()
    stdout = _same_stdout()
    try:
        code = _app_for(args)(args, prog_name="kafkeep", standalone_mode=False)
        if code == InterruptedRunError.exit_code:  # Typer turns Ctrl-C into this
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        code = _fail(error_of(KeyboardInterrupt()), wants_json)
    except TyperException as error:
        code = _fail(UsageError(_usage(error), hint=_usage_hint(error)), wants_json)
    except UsageError as error:
        error.hint = error.hint or f"See {_command(args)} --help."
        code = _fail(error, wants_json)
    except SystemExit as ended:  # how Typer ends, silently, when any pipe breaks
        cause = ended.__context__
        if not isinstance(cause, BrokenPipeError):
            raise
        code = 0 if _is_broken(stdout) else _fail(error_of(cause), wants_json)
    except Exception as error:  # never show a traceback without --debug
        code = _fail(error_of(error), wants_json)
    finally:
        if stdout is not None:
            os.close(stdout)
    sys.exit(code if isinstance(code, int) else 0)


def _command(args: Sequence[str]) -> str:
    """Return the command that was called, for ``… --help``."""
    words = [word for word in args if not word.startswith("-")]
    count = 2 if _VERBS.get(words[0] if words else "", "").endswith(":app") else 1
    return " ".join(["kafkeep", *words[:count]])


def _same_stdout() -> int | None:
    """Duplicate stdout: Rich replaces it when it breaks."""
    try:
        return os.dup(1)
    except OSError:
        return None


def _is_broken(pipe: int | None) -> bool:
    """Return whether the reader of a pipe has gone (``| head``)."""
    if pipe is None:
        return False
    watch = select.poll()
    watch.register(pipe, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def _fail(error: KafkeepError, wants_json: bool) -> int:
    if os.environ.get("KAFKEEP_DEBUG"):
        complain(redact(traceback.format_exc()).rstrip())
    if wants_json:
        complain(json.dumps(error_document(error)))
    else:
        complain(f"error: {redact(error.message)}")
        if error.hint:
            complain(f"hint: {error.hint}")
    return error.exit_code


def _usage(error: TyperException) -> str:
    text = error.format_message().rstrip(".")
    return text[:1].lower() + text[1:]


def _usage_hint(error: TyperException) -> str:
    near = getattr(error, "possibilities", None)
    if near:
        return f"Did you mean {sorted(near)[0]}?"
    context = getattr(error, "ctx", None)
    return f"See {context.command_path if context else 'kafkeep'} --help."


def run() -> None:
    """Run the command of this process, and end it without tidying its memory.

    Python would free every module first, which takes a tenth of a second. Everything that is
    registered for the end still runs: this is registered first, so it runs last.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    ended = _Ending()
    atexit.register(ended.leave)
    try:
        main()
    except SystemExit as error:
        ended.code = error.code
        raise


_OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""Python's own number is 700. Importing creates half a million objects that are never freed, and a
sixth of the time would pass with looking at them."""


class _Ending:
    """How this process ends."""

    code: str | int | None = None

    def leave(self) -> None:
        """End with the code of the command, unless its output cannot be written to the end."""
        if not isinstance(self.code, int):
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):  # Python reports it, and ends with a code of its own
            return
        os._exit(self.code)


if __name__ == "__main__":
    run()
