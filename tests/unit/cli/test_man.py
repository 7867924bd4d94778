"""The manual page has every command and flag, and is roff that no reader stumbles over."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main
from tests.support.invoke import Cli

from kafkeep.cli.main import app
from kafkeep.cli.man import manual_page

PROGRAM: Any = typer.main.get_command(app)
PAGE = manual_page(PROGRAM)
MACROS = {"TH", "SH", "SS", "PP", "TP", "B", "I", "RI", "RS", "RE", "nf", "fi"}


def _commands(name: str, command: Any) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        return [(name, command)]
    return [one for child, c in inner.items() for one in _commands(f"{name} {child}", c)]


@pytest.mark.parametrize(("name", "command"), _commands("kafkeep", PROGRAM))
def test_the_page_has_the_command_with_every_flag(name: str, command: Any) -> None:
    title = '"' + name.replace("-", r"\-")
    sections = re.split(r"^\.S[SH] ", PAGE, flags=re.MULTILINE)
    (section,) = [s for s in sections if s.startswith((f'{title}"', f"{title} "))]
    for parameter in command.params:
        for flag in parameter.opts if parameter.param_type_name == "option" else ():
            assert r"\fB" + flag.replace("-", r"\-") + r"\fR" in section, flag


def test_no_text_is_read_as_a_macro_or_an_escape() -> None:
    for line in PAGE.splitlines():
        if line.startswith("."):
            assert line[1:].split()[0] in MACROS, line
        assert not line.startswith("'")
        assert line.isascii()
        assert set(re.findall(r"\\(.)", line)) <= {"-", "e", "f", "&", "["}, line


def test_the_command_prints_the_page(cli: Cli) -> None:
    assert cli.run("man") == 0
    assert cli.out.decode() == PAGE
    for part in ("NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES"):
        assert f".SH {part}\n" in PAGE
    assert ".B KAFKEEP_ARCHIVE\n" in PAGE


def test_the_exit_codes_are_those_of_the_errors() -> None:
    from kafkeep import errors

    codes = {
        one.exit_code
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.KafkeepError)
    }
    listed = {int(code) for code in re.findall(r"^\.B (\d+)$", PAGE, re.MULTILINE)}
    assert listed == codes | {0, 2, 3}
