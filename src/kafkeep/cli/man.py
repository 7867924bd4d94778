"""``kafkeep man``: the manual page, made from the declared commands and options."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from kafkeep import __version__

_EXIT_CODES = (
    (0, "Done."),
    (1, "An error."),
    (2, "A flag, a file or a value is invalid."),
    (3, "Done, with gaps or warnings."),
    (10, "There is no such archive, log, commit, topic or record."),
    (11, "A newer writer holds the log."),
    (12, "Kafka or the store denies access."),
    (13, "Something is damaged or missing."),
    (14, "A preflight check failed. Nothing was written."),
    (130, "Interrupted."),
)
_EXAMPLES = (
    (
        "Back up two topics, and continue where the last run ended:",
        "kafkeep backup -b broker:9092 --archive s3://bucket/prefix -t orders,events",
    ),
    ("Show what the archive holds:", "kafkeep info --archive s3://bucket/prefix"),
    (
        "Print the last ten records of a topic:",
        "kafkeep cat --archive s3://bucket/prefix -t orders -o -10",
    ),
    (
        "Preview a restore into a new topic, then run it:",
        "kafkeep restore -b broker:9092 --archive s3://bucket/prefix -t orders:copy --dry-run\n"
        "kafkeep restore -b broker:9092 --archive s3://bucket/prefix -t orders:copy",
    ),
)


def man_command(context: typer.Context) -> None:
    """Print the manual page of kafkeep, with every command and option.

    Read it with: kafkeep man | man -l -
    Install it with: kafkeep man > ~/.local/share/man/man1/kafkeep.1

    Exits with 0.
    """
    sys.stdout.write(manual_page(context.find_root().command))


def manual_page(program: Any) -> str:
    """Return the page of a command with all of its subcommands, as roff."""
    lines = [
        f'.TH KAFKEEP 1 "" "kafkeep {_text(__version__)}" "User Commands"',
        ".SH NAME",
        f"kafkeep \\- {_text(_sentence(program.help))}",
        ".SH SYNOPSIS",
        ".B kafkeep",
        ".RI [ options ]",
        ".I command",
        ".RI [ arguments ]",
        ".SH DESCRIPTION",
        *_paragraphs(
            "kafkeep copies Kafka topics into S3-compatible object storage and back. A backup "
            "reads record batches from Kafka and writes data objects; a commit log in the same "
            "bucket records which object holds which offsets. A restore produces the batches "
            "again, each record once.\n\nData goes to stdout, messages go to stderr. With "
            "--output json, a command prints one JSON document."
        ),
        ".SH OPTIONS",
        *_options(program),
        ".SH COMMANDS",
    ]
    for name, command in _leaves("", program):
        lines += _section(name, command)
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT_CODES:
        lines += [".TP", f".B {code}", _text(meaning)]
    lines += [".SH ENVIRONMENT", *_environment(program), ".SH EXAMPLES"]
    for what, line in _EXAMPLES:
        lines += [".PP", _text(what), ".PP", ".RS 4", ".nf", *map(_text, line.split("\n"))]
        lines += [".fi", ".RE"]
    return "\n".join(lines) + "\n"


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands that do something, with their full names."""
    for child, inner in (getattr(command, "commands", None) or {}).items():
        full = f"{name} {child}".strip()
        if getattr(inner, "commands", None):
            yield from _leaves(full, inner)
        elif not inner.hidden:
            yield full, inner


def _section(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    lines = [f'.SS "kafkeep {_text(name)}{_usage(arguments)}"', *_paragraphs(command.help or "")]
    for argument in arguments:
        if argument.help:
            lines += [".TP", f".I {_text(_metavar(argument))}", _text(argument.help)]
    return [*lines, *_options(command)]


def _usage(arguments: Iterable[Any]) -> str:
    words = [_metavar(one) if one.required else f"[{_metavar(one)}]" for one in arguments]
    return _text("".join(f" {word}" for word in words))


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    wanted = parameter.type_descriptor.annotation
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return "|".join(str(one.value) for one in wanted)
    return {int: "N", Path: "PATH"}.get(wanted, "TEXT")


def _options(command: Any) -> list[str]:
    lines: list[str] = []
    for option in command.params:
        if option.param_type_name != "option" or option.hidden:
            continue
        value = "" if option.is_flag else f" \\fI{_text(_metavar(option))}\\fR"
        names = sorted((*option.opts, *option.secondary_opts), key=lambda name: name[:2] == "--")
        spelled = ", ".join(f"\\fB{_text(name)}\\fR" for name in names)
        lines += [".TP", spelled + value, _text(_flat(option.help or ""))]
        if option.required:
            lines.append("Required.")
    return lines


def _environment(program: Any) -> list[str]:
    found: dict[str, str] = {}
    for _, command in _leaves("", program):
        for option in command.params:
            if option.envvar:
                found.setdefault(str(option.envvar), option.opts[0])
    lines: list[str] = []
    for name, flag in sorted(found.items()):
        lines += [".TP", f".B {_text(name)}", _text(f"The default of {flag}.")]
    more = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL_S3, AWS_PROFILE"
    return [*lines, ".TP", f".B {_text(more)}", "Reach the object storage, as AWS's tools do."]


def _paragraphs(help_text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", help_text.strip()):
        lines += [".PP", _text(_flat(paragraph))]
    return lines


def _flat(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str) -> str:
    return _flat(text).split(". ")[0].rstrip(".")


def _text(text: str) -> str:
    """Escape backslashes, hyphens, letters beyond ASCII, and a control character that leads."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
