"""Every way to fail: one sentence, a hint, the code; never a traceback, and none in silence."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.archive_builder import Built, build_archive, partition
from tests.support.invoke import Cli

from kafkeep.cli.output import error_of
from kafkeep.maintenance.inspect import info
from kafkeep.spark.tasks import ERROR_KIND, _guarded
from kafkeep.store.local.store import LocalStore


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(["info"], "kafkeep info"), (["groups", "show"], "kafkeep groups show"), (["x"], "kafkeep")],
)
def test_a_wrong_call_is_sent_to_the_help_of_its_command(
    cli: Cli, arguments: list[str], command: str
) -> None:
    assert cli.run(*arguments) == 2
    assert f"hint: See {command} --help.\n" in cli.err


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ("backup --topics-regex (", "kafkeep backup"),
        ("--debug restore --commit 1 --at 2024-01-01 --bootstrap-servers k:1", "kafkeep restore"),
        ("groups plan --commit 1 --at 2024-01-01 --bootstrap-servers k:1", "kafkeep groups plan"),
    ],
)
def test_a_wrong_value_has_a_hint_always(
    cli: Cli, address: str, arguments: str, command: str
) -> None:
    assert cli.run(*arguments.split(), "--archive", address) == 2
    assert cli.err.endswith(f"\nhint: See {command} --help.\n")


def test_an_error_that_names_what_is_not_utf8_is_still_one_document(
    cli: Cli, address: str, built: Built
) -> None:
    asked = ("info", "--archive", address, "--topic", "\udcff", "--output", "json")
    assert cli.run(*asked) == 10
    assert json.loads(cli.err)["code"] == 10


GOLDEN = Path(__file__).parents[2] / "golden" / "1"


@pytest.mark.parametrize(
    ("arguments", "code", "errors_too"),
    [
        ("--help", 0, False),
        ("doctor --no-spark", 0, False),
        ("doctor --no-spark --archive /none", 10, False),
        (f"verify --archive {GOLDEN}/missing-commit --output json", 13, False),
        (f"verify --archive {GOLDEN}/missing-commit", 13, True),
        ("info --archive /none", 10, True),
    ],
)
def test_a_reader_that_has_gone_changes_no_exit_code(
    arguments: str, code: int, errors_too: bool
) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "kafkeep.cli.main", *arguments.split()]
    errors = write if errors_too else subprocess.PIPE
    try:
        ended = subprocess.run(command, stdout=write, stderr=errors, check=False)
    finally:
        os.close(write)
    assert ended.returncode == code
    assert b"BrokenPipe" not in (ended.stderr or b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("info --archive . --output json", 1),
        ("cat --archive .", 1),
        ("cat --archive . -c 0", 0),
        ("--help", 1),
        ("info --archive /none", 10),
    ],
)
def test_a_closed_stdout_is_reported_when_something_is_printed(
    tmp_path: Path, arguments: str, code: int
) -> None:
    build_archive(LocalStore(tmp_path), {"orders": [partition(0, 100)]})
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "kafkeep.cli.main"]
    command = [*shell, *arguments.split()]
    ended = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == code, ended.stderr
    assert (b"stdout is closed" in ended.stderr) == (code == 1)
    assert b"unexpected" not in ended.stderr and b"Traceback" not in ended.stderr


def test_a_stderr_that_is_closed_changes_no_exit_code() -> None:
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "kafkeep.cli.main"]
    ended = subprocess.run([*shell, "info", "--archive", "/none"], check=False)
    assert ended.returncode == 10


def test_a_broken_pipe_other_than_stdout_is_reported(
    cli: Cli, address: str, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(info, "load_info", break_off)
    assert cli.run("info", "--archive", address) == 1
    assert "error: unexpected error: BrokenPipeError" in cli.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["restore", "--bootstrap-servers", "k:1", "--dry-run", "--report", "r.html"], "--report"),
        (["backup", "--topics", "a", "--interval", "5s"], "--interval requires --follow"),
        (["backup", "--topics", "a", "--segment-age", "1s"], "--segment-age requires --follow"),
        (["doctor", "--exact", "--no-spark"], "--bootstrap-servers"),
        (["doctor", "--no-spark", "--spark-conf", "spark.a=b"], "--spark-conf"),
    ],
)
def test_what_would_not_be_used_is_refused_by_name(
    cli: Cli, address: str, arguments: list[str], named: str
) -> None:
    assert cli.run(*arguments, "--archive", address) == 2
    assert named in cli.err and "\nhint: " in cli.err


def test_a_missing_folder_is_reported_with_a_hint(cli: Cli, tmp_path: Path) -> None:
    for command in ("info", "ls", "du", "cat", "verify"):
        assert cli.run(command, "--archive", f"file://{tmp_path}/none") == 10
        assert f"error: there is no folder {tmp_path}/none\nhint: " in cli.err
    assert cli.run("doctor", "--no-spark", "--archive", f"{tmp_path}/none") == 10
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["backup", "--topics", "a", "--name", "../b"], "--name: "),
        (["backup", "--topics", "a b"], "--topics: "),
        (["restore", "--bootstrap-servers", "k:1", "--topics", "a:b:c"], "--topics: "),
        (["restore", "--bootstrap-servers", "k:1", "--name", "a/b"], "--name: "),
        (["drill", "--bootstrap-servers", "k:1", "--topics", "a/b"], "--topics: "),
        (["info", "--name", "a/b"], ""),
    ],
)
def test_names_that_cannot_be_are_refused_at_once(
    cli: Cli, address: str, arguments: list[str], flag: str
) -> None:
    assert cli.run(*arguments, "--archive", address) == 2
    assert cli.err.startswith(f"error: {flag}")
    assert "\nhint: Use letters, digits, '.', '_' and '-'" in cli.err


def test_a_reserved_name_is_distinguished_from_one_with_wrong_characters(
    cli: Cli, address: str
) -> None:
    assert cli.run("backup", "--topics", "a", "--name", "restores", "--archive", address) == 2
    assert cli.err.startswith("error: --name: the name 'restores' is reserved\nhint: Choose ")


@pytest.mark.parametrize(
    "flags",
    [
        "backup --topics a --follow --interval 0s",
        "backup --topics a --segment-bytes 0",
        "backup --topics a --cycle-bytes 0MiB",
        "backup --topics a --cycle-time 0ms",
        "restore --rate 0",
        "drill --rate 0",
    ],
)
def test_what_would_never_move_or_never_pause_is_refused(
    cli: Cli, address: str, flags: str
) -> None:
    where = ("--archive", address, "--bootstrap-servers", "127.0.0.1:1")
    assert cli.run(*flags.split(), *where) == 2
    assert "is not above zero\nhint: " in cli.err


@pytest.mark.parametrize("command", ["backup --topics a", "info", "serve"])
@pytest.mark.parametrize("setting", ["flush.size", "=word"])
def test_a_setting_that_is_no_pair_is_reported_without_its_value(
    cli: Cli, address: str, command: str, setting: str
) -> None:
    verb, *flags = command.split()
    where = [] if verb == "serve" else ["--archive", address]
    assert cli.run(verb, *flags, *where, "--set", setting) == 2
    assert "is not KEY=VALUE\nhint: " in cli.err and "word" not in cli.err


@pytest.mark.parametrize("number", ["foo", "-1", "9" * 5000])
def test_what_cannot_be_a_commit_is_refused(cli: Cli, address: str, number: str) -> None:
    for verb in ("restore", "drill"):
        where = ("--archive", address, "--bootstrap-servers", "k:1")
        assert cli.run(verb, *where, "--commit", number) == 2
        assert "is not the number of a commit\nhint: " in cli.err


@pytest.mark.parametrize("address", ["htp://bucket/x", "s3:/bucket/x", "s3://b", ""])
def test_an_invalid_address_is_reported_before_kafka_is_asked(cli: Cli, address: str) -> None:
    where = ("--archive", address, "--bootstrap-servers", "127.0.0.1:1")
    assert cli.run("restore", *where, "--dry-run") == 2
    assert cli.run("groups", "plan", *where) == 2


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 1), (errno.EDQUOT, 1), (errno.EROFS, 12)]
)
def test_a_full_disk_is_reported_wherever_it_is_met(number: int, code: int) -> None:
    met = OSError(number, os.strerror(number), "/some/file")
    told = error_of(met)
    assert (told.message, told.exit_code) == (f"/some/file: {os.strerror(number)}", code)
    assert told.hint

    def task(_bundle: int) -> Iterator[tuple[str, dict[str, Any]]]:
        raise met
        yield

    [(kind, body)] = _guarded(task, 0)
    assert (kind, body["message"], body["hint"]) == (ERROR_KIND, told.message, told.hint)
    with pytest.raises(FileNotFoundError):
        _guarded(lambda _bundle: Path("/no/such/file").read_bytes(), 0)  # type: ignore[arg-type]
