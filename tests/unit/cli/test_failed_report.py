"""Reports of what does not come to its end."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.invoke import Cli

from kafkeep.cli.restore import _PausedError
from kafkeep.errors import NoSuchArchiveError
from kafkeep.maintenance.report_pages import restore_page
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.summary import RestoreSummary

ERRORS = [
    (NoSuchArchiveError("nothing is <there>", hint="Look elsewhere."), 10),
    (KeyboardInterrupt(), 130),
    (ZeroDivisionError("oh"), 1),
]


COMMANDS = {
    "drill": ("kafkeep.maintenance.drill", "run_drill", ["drill", "--bootstrap-servers"]),
    "restore": ("kafkeep.restore.run", "run_restore", ["restore", "--bootstrap-servers"]),
    "verify-against": ("kafkeep.compare.job", "run_compare", ["verify", "--against"]),
}


def fail(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, file: Path, report: str
) -> int:
    """Run a command that meets ``error`` after its flags were read."""

    def meet(*_args: object, **_named: object) -> None:
        raise error

    module, function, words = COMMANDS[report]
    monkeypatch.setattr(f"kafkeep.cli.{words[0]}.start_spark", lambda *_, **_named: None)
    monkeypatch.setattr(import_module(module), function, meet)
    return cli.run(*words, "127.0.0.1:1", "--archive", "memory:x", "--report", str(file))


@pytest.mark.parametrize("report", COMMANDS)
@pytest.mark.parametrize("met", ERRORS)
def test_what_fails_says_so_in_its_report(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    met: tuple[BaseException, int],
    report: str,
) -> None:
    error, code = met
    assert fail(cli, monkeypatch, error, tmp_path / "a.json", report) == code
    document = json.loads((tmp_path / "a.json").read_text())
    assert (document["report"], document["verdict"]) == (report, "failed")
    assert (document["code"], document["archive"]) == (code, "memory:x")
    assert f"error: {document['message']}\n" in cli.err


def test_an_archive_that_is_not_there_is_in_the_report_of_its_verification(
    cli: Cli, tmp_path: Path
) -> None:
    place, file = str(tmp_path / "none"), tmp_path / "a.json"
    assert cli.run("verify", "--archive", place, "--report", str(file)) == 10
    document = json.loads(file.read_text())
    assert (document["report"], document["verdict"], document["code"]) == ("verify", "failed", 10)


def test_a_restore_that_is_paused_has_not_failed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fail(cli, monkeypatch, _PausedError(), tmp_path / "a.json", "restore") == 0
    assert not (tmp_path / "a.json").exists()


def test_the_page_of_what_fails_says_why(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fail(cli, monkeypatch, ERRORS[0][0], tmp_path / "a.html", "drill") == 10
    text = (tmp_path / "a.html").read_text()
    assert "nothing is &lt;there&gt;" in text and "Look elsewhere." in text and "failed" in text


def test_a_report_that_cannot_be_written_does_not_hide_the_error(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def meet(*_args: object, **_named: object) -> None:
        (tmp_path / "gone").rmdir()
        raise NoSuchArchiveError("nothing is there")

    (tmp_path / "gone").mkdir()
    monkeypatch.setattr("kafkeep.cli.drill.start_spark", meet)
    where = ("--archive", "memory:x", "--bootstrap-servers", "127.0.0.1:1")
    assert cli.run("drill", *where, "--report", str(tmp_path / "gone/a.json")) == 10
    assert "warning: the report cannot be written" in cli.err
    assert "error: nothing is there" in cli.err


def test_a_restore_that_came_to_its_end_has_a_verdict_too() -> None:
    locations = Locations(
        kafka=KafkaOptions("127.0.0.1:1"), archive="memory:x", storage=StorageOptions()
    )
    assert restore_page(RestoreSummary(), locations, 5).document["verdict"] == "done"
    warned = restore_page(RestoreSummary(newer=["t"]), locations, 5)
    assert (warned.document["verdict"], warned.verdict) == ("warnings", "done, with warnings")
