"""--quiet and --verbose, and the short names that users of kcat and restic know."""

from __future__ import annotations

import logging

import pytest
import typer.main
from tests.support.archive_builder import Built
from tests.support.invoke import Cli

from kafkeep.cli.flags import with_quiet, with_verbosity
from kafkeep.cli.main import app
from kafkeep.cli.output import Verbosity, complain, detail, say, set_verbosity
from kafkeep.errors import UsageError


@pytest.fixture(autouse=True)
def _back_to_normal() -> object:
    yield
    set_verbosity(Verbosity.NORMAL)
    logging.getLogger("kafkeep").setLevel(logging.NOTSET)


def _print_all() -> None:
    say("a warning")
    detail("a detail")
    complain("an error")


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        ({"quiet": False, "verbose": False}, ["a warning", "an error"]),
        ({"quiet": True, "verbose": False}, ["an error"]),
        ({"quiet": False, "verbose": True}, ["a warning", "a detail", "an error"]),
    ],
)
def test_flags_decide_what_is_said(
    flags: dict[str, bool], printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with_verbosity(_print_all)(**flags)
    assert capsys.readouterr().err.splitlines() == printed


def test_quiet_silences_warnings_of_the_log() -> None:
    with_quiet(_print_all)(quiet=True)
    assert not logging.getLogger("kafkeep.backup").isEnabledFor(logging.WARNING)
    assert logging.getLogger("kafkeep.backup").isEnabledFor(logging.ERROR)


def test_quiet_and_verbose_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="cannot both be given"):
        with_verbosity(_print_all)(quiet=True, verbose=True)


def test_a_quiet_command_still_prints_errors_and_its_result(
    cli: Cli, address: str, built: Built
) -> None:
    assert cli.run("verify", "--archive", address, "-q") == 0
    assert b"verdict" in cli.out
    assert cli.err == ""
    assert cli.run("verify", "--archive", address, "-q", "-t", "nothing") == 10
    assert cli.err.startswith("error: ")


def test_quiet_does_not_outlive_its_command(cli: Cli, address: str, built: Built) -> None:
    cli.run("verify", "--archive", address, "--quiet")
    cli.run("info", "--archive", address)
    assert logging.getLogger("kafkeep").isEnabledFor(logging.WARNING)


def test_a_quiet_verify_still_names_damage(cli: Cli, address: str, built: Built) -> None:
    from kafkeep.store.memory import MemoryStore

    MemoryStore.shared(address.removeprefix("memory:")).delete(built.entries[0].key)
    assert cli.run("verify", "--archive", address, "--quiet") == 13
    assert built.entries[0].key in cli.err


def test_topics_may_be_listed_or_repeated(cli: Cli, address: str, built: Built) -> None:
    listed = cli.document("ls", "--archive", address, "-t", "orders,events")
    repeated = cli.document("ls", "--archive", address, "--topic", "orders", "--topics", "events")
    assert listed == repeated
    assert cli.document("ls", "--archive", address) == listed


def test_verify_refuses_a_new_name_without_a_cluster(cli: Cli, address: str, built: Built) -> None:
    assert cli.run("verify", "--archive", address, "-t", "orders:copy") == 2
    assert "needs --against" in cli.err


def _flags() -> list[tuple[str, list[str]]]:
    found = []

    def walk(name: str, command: object) -> None:
        for child, inner in (getattr(command, "commands", None) or {}).items():
            walk(f"{name} {child}".strip(), inner)
        if not getattr(command, "commands", None):
            found.append((name, [flag for p in command.params for flag in p.opts]))  # type: ignore[attr-defined]

    walk("", typer.main.get_command(app))
    return found


@pytest.mark.parametrize(("name", "flags"), _flags())
def test_no_flag_is_declared_twice_and_short_names_mean_the_same_everywhere(
    name: str, flags: list[str]
) -> None:
    assert len(flags) == len(set(flags)), f"{name}: a flag is declared twice"
    for short, long in (
        ("-b", "--bootstrap-servers"),
        ("-t", "--topics"),
        ("-q", "--quiet"),
        ("-v", "--verbose"),
    ):
        assert (short in flags) == (long in flags), f"{name}: {short} is not {long}"
