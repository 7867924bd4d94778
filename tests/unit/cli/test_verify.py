from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.archive_builder import Built
from tests.support.invoke import Cli

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.keys import log_key
from kafkeep.compare.result import CompareResult
from kafkeep.maintenance.verify.last_verified import MOST_READ
from kafkeep.store.memory import MemoryStore


def test_verify_exits_0_for_an_intact_archive(cli: Cli, address: str, built: Built) -> None:
    assert cli.run("verify", "--archive", address) == 0
    assert b"intact" in cli.out


def test_verify_exits_13_and_names_the_lost_offsets(
    cli: Cli, address: str, store: MemoryStore, built: Built
) -> None:
    store.delete(built.entries[0].key)
    assert cli.run("verify", "--archive", address) == 13
    assert "damage: orders-0:" in cli.err
    assert "lost offsets 0 to 99" in cli.err
    assert b"damaged" in cli.out


def test_verify_exits_3_when_a_commit_that_it_saw_before_was_removed(
    cli: Cli, address: str, store: MemoryStore, built: Built
) -> None:
    assert cli.run("verify", "--archive", address) == 0
    store.delete(log_key("backup", built.log.state.commit))
    for _ in range(2):  # it does not forget: only a clean verify leaves a trace
        assert cli.run("verify", "--archive", address) == 3
        assert "was removed from the log since it was verified" in cli.err
        assert b"incomplete" in cli.out


def test_clean_runs_of_verify_against_do_not_erase_the_evidence_of_removed_commits(
    cli: Cli, address: str, store: MemoryStore, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_args: object, **_named: object) -> CompareResult:
        state = load_log(store, "backup").state
        return CompareResult(
            archive=address, log="backup", commit=state.commit, commit_at_ms=0,
            commit_sha256=state.digest, bootstrap="k:1", cluster_id="c", exact_offsets=True,
            began_ms=0, seconds=0.0, start_seconds=0.0, topics=(),
        )  # fmt: skip

    monkeypatch.setattr("kafkeep.cli.verify.start_spark", lambda *_args, **_named: None)
    monkeypatch.setattr("kafkeep.compare.job.run_compare", run)
    against = ("verify", "--archive", address, "--against", "k:1")
    assert cli.run(*against) == 0
    store.delete(log_key("backup", built.log.state.commit))
    for _ in range(MOST_READ + 1):
        assert cli.run(*against) == 3
    assert "was removed from the log since it was verified" in cli.err
    assert b"warnings" in cli.out
    assert cli.run("verify", "--archive", address) == 3


def test_verify_prints_one_document(
    cli: Cli, address: str, store: MemoryStore, built: Built
) -> None:
    store.delete(built.entries[0].key)
    report = cli.document("verify", "--archive", address, "--deep", code=13)
    assert report["intact"] is False
    assert report["lost_offsets"] == 100
    assert report["objects"] == 5
    assert [f["kind"] for f in report["findings"]] == ["missing", "gap"]


def test_verify_exits_10_where_there_is_no_archive(cli: Cli, address: str) -> None:
    assert cli.run("verify", "--archive", address) == 10
    assert cli.run("verify", "--archive", address, "--name", "../x") == 2


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--spark-conf", "spark.a=b"], "--spark-conf"),
        (["--command-config", "client.properties"], "--command-config"),
        (["--against", "k:9092", "--workers", "2"], "--workers"),
        (["--against", "k:9092", "--deep"], "--deep"),
    ],
)
def test_verify_refuses_by_name_what_it_would_not_use(
    cli: Cli, address: str, built: Built, flags: list[str], named: str
) -> None:
    assert cli.run("verify", "--archive", address, *flags) == 2
    assert named in cli.err and "hint: " in cli.err


def test_verify_shows_what_it_found_though_the_report_cannot_be_written(
    cli: Cli, address: str, store: MemoryStore, built: Built, tmp_path: Path
) -> None:
    store.delete(built.entries[0].key)
    (tmp_path / "r.html").symlink_to(tmp_path / "none" / "r.html")
    assert cli.run("verify", "--archive", address, "--report", f"{tmp_path}/r.html") == 1
    assert "damage: " in cli.err and "error: the report cannot be written" in cli.err


def test_a_folder_is_no_report(cli: Cli, address: str, built: Built, tmp_path: Path) -> None:
    (tmp_path / "r.html").mkdir()
    assert cli.run("verify", "--archive", address, "--report", f"{tmp_path}/r.html") == 2
