"""Commands over an archive in a folder that somebody put other things into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.invoke import Cli

from kafkeep.archive.view import load_view
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.plan import plan_restore
from kafkeep.restore.source import choose_log, load_contents
from kafkeep.store.local.store import LocalStore

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    build_archive(LocalStore(folder), {"orders": [partition(0, 100)]})
    for name in (b"topics/orders/caf\xe9", b"_kafkeep/backup/log/\xff.json"):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(b"x")
    os.mkfifo(folder / "topics" / "orders" / "fifo")
    (folder / "topics" / "orders" / "loop").symlink_to(folder)
    (folder / "topics" / "name").symlink_to("/etc/hostname")
    return folder


STRAYS = [
    "_kafkeep/backup/log/\\xff.json",
    "topics/name",
    "topics/orders/caf\\xe9",
    "topics/orders/fifo",
    "topics/orders/loop",
]


@pytest.mark.parametrize("command", ["verify", "gc", "info", "ls", "du", "cat"])
def test_stray_files_stop_no_command(cli: Cli, archive: Path, command: str) -> None:
    assert cli.run(command, "--archive", str(archive)) == 0, cli.err


def test_verify_names_stray_files_and_the_archive_stays_intact(cli: Cli, archive: Path) -> None:
    report = cli.document("verify", "--archive", str(archive))
    assert report["intact"]
    strays = [row for row in report["findings"] if row["kind"] == "stray"]
    assert sorted(row["key"] for row in strays) == STRAYS


def test_gc_leaves_stray_files_alone(cli: Cli, archive: Path) -> None:
    before = sorted(os.listdir(os.fsencode(archive / "topics" / "orders")))
    for path in (archive / "topics").rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    report = cli.document("gc", "--archive", str(archive), "--older-than", "1h")
    assert report["foreign"] == len(STRAYS)
    assert sorted(os.listdir(os.fsencode(archive / "topics" / "orders"))) == before


def test_an_object_that_is_a_link_out_of_the_archive_is_missing_and_not_printed(
    cli: Cli, archive: Path, tmp_path: Path
) -> None:
    [entry] = (archive / "topics" / "orders").rglob("*.log.zst")
    entry.rename(tmp_path / "moved")
    entry.symlink_to(tmp_path / "moved")
    report = cli.document("verify", "--archive", str(archive), code=13)
    key = str(entry.relative_to(archive))
    assert {row["kind"] for row in report["findings"] if row["key"] == key} == {"missing", "stray"}
    assert cli.run("cat", "--archive", str(archive)) == 13
    assert cli.out == b""


@pytest.mark.parametrize("above", ["_kafkeep", "topics"])
def test_a_folder_of_the_archive_that_is_a_link_is_refused_by_name(
    cli: Cli, archive: Path, tmp_path: Path, above: str
) -> None:
    (archive / above).rename(tmp_path / "moved")
    (archive / above).symlink_to(tmp_path / "moved")
    assert cli.run("verify", "--archive", str(archive)) == 1
    assert f"error: {above} is a symbolic link, which kafkeep does not follow" in cli.err
    assert "hint: Move what it points to into the archive" in cli.err


@pytest.mark.parametrize(
    ("linked", "command"),
    [
        *(("topics/orders", command) for command in ("verify", "gc", "cat")),
        *(("_kafkeep/backup", command) for command in ("verify", "gc", "cat", "info", "ls")),
    ],
)
def test_a_topic_or_log_that_is_a_link_is_named_and_not_called_lost(
    cli: Cli, archive: Path, tmp_path: Path, linked: str, command: str
) -> None:
    (archive / linked).rename(tmp_path / "moved")
    (archive / linked).symlink_to(tmp_path / "moved")
    assert cli.run(command, "--archive", str(archive)) == 1
    assert f"error: {linked} is a symbolic link, which kafkeep does not follow" in cli.err
    assert "mount --bind" in cli.err


def test_an_archive_whose_own_name_is_not_utf8_is_named_escaped(cli: Cli, tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(folder)
    build_archive(LocalStore(folder), {"orders": [partition(0, 100)]})
    for command in ("info", "verify", "gc", "du", "ls"):
        cli.document(command, "--archive", folder)
        assert b"caf\\\\xe9" in cli.out
    assert cli.run("info", "--archive", f"{folder}x") == 10
    assert "caf\\xe9x" in cli.err


def test_a_restore_of_a_folder_with_stray_files_is_planned_whole(archive: Path) -> None:
    store = LocalStore(archive)
    options = RestoreOptions()
    plan = plan_restore(
        load_contents(load_view(store, choose_log(store, options)), options), options, id="r"
    )
    assert sum(entry.records for topic in plan.topics for entry in topic.entries) == 100


def test_files_without_a_log_that_are_links_are_named_when_they_are_left_out(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "sink"
    place = folder / "topics" / "t" / "partition=0"
    place.mkdir(parents=True)
    (place / "t+0+0000000000.json").write_bytes(b'{"a":1}\n')
    (place / "t+0+0000000001.json").symlink_to("/etc/hostname")
    assert cli.run("cat", "--archive", str(folder)) == 0
    assert cli.out.count(b"\n") == 1
    report = cli.document("verify", "--archive", str(folder))
    odd = {row["key"]: row["message"] for row in report["findings"] if row["kind"] == "orphan"}
    assert "symbolic link" in odd["topics/t/partition=0/t+0+0000000001.json"]
