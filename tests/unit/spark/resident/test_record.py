"""The record of a resident session is for its owner, its processes and its version alone."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from kafkeep.errors import EnvironmentFault
from kafkeep.spark.resident.record import (
    PROOF_KEY,
    Runtime,
    SessionRecord,
    is_running,
    make_private_folder,
    read_record,
    remove_record,
    resident_folder,
    start_time,
    write_record,
)

TOKEN, PROOF = "t0ken-of-the-server", "pr00f-of-the-server"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionRecord:
    monkeypatch.setenv("KAFKEEP_CACHE", str(tmp_path))
    made = SessionRecord(
        host="here",
        pid=os.getpid(),
        pid_started=start_time(os.getpid()),
        port=1,
        token=TOKEN,
        proof=PROOF,
        runtime=Runtime.current(),
        master="local[2,4]",
        settings={},
        started_ms=1,
        idle_timeout_ms=2,
    )
    write_record(made)
    return made


def file_of_record() -> Path:
    return resident_folder() / "session.json"


def test_a_record_comes_back_as_it_was_written_in_a_file_of_its_owner(
    record: SessionRecord,
) -> None:
    assert read_record() == record
    assert stat.S_IMODE(file_of_record().stat().st_mode) == 0o600
    assert stat.S_IMODE(resident_folder().stat().st_mode) == 0o700


def test_a_record_does_not_show_its_secrets(record: SessionRecord) -> None:
    assert TOKEN not in repr(record)
    assert PROOF not in repr(record)


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o601])
def test_a_record_that_others_can_reach_is_refused(record: SessionRecord, mode: int) -> None:
    file_of_record().chmod(mode)
    with pytest.raises(EnvironmentFault, match=f"its mode is {mode:o}"):
        read_record()


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o710])
def test_a_folder_that_others_can_reach_is_refused(record: SessionRecord, mode: int) -> None:
    resident_folder().chmod(mode)
    with pytest.raises(EnvironmentFault, match=f"its mode is {mode:o}"):
        read_record()
    with pytest.raises(EnvironmentFault, match=f"its mode is {mode:o}"):
        make_private_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", [".", "session.json"])
def test_what_belongs_to_another_user_is_refused(record: SessionRecord, name: str) -> None:
    os.chown(resident_folder() / name, 12345, -1)
    with pytest.raises(EnvironmentFault, match="it belongs to user 12345"):
        read_record()


def test_a_link_in_place_of_the_record_or_the_folder_is_refused(
    record: SessionRecord, tmp_path: Path
) -> None:
    file, other = file_of_record(), tmp_path / "other"
    file.rename(other)
    file.symlink_to(other)
    with pytest.raises(EnvironmentFault, match="is not used"):
        read_record()
    file.unlink()
    folder = resident_folder()
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(EnvironmentFault, match="it is not what kafkeep created"):
        make_private_folder()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_a_record_of_another_version_counts_as_none(record: SessionRecord, text: str) -> None:
    file_of_record().write_text(text)
    assert read_record() is None


def test_a_record_is_removed_only_by_its_own_process(record: SessionRecord) -> None:
    remove_record(record.pid + 1)
    assert read_record() == record
    remove_record(record.pid)
    assert read_record() is None


def test_a_process_with_the_number_of_an_ended_one_is_another(record: SessionRecord) -> None:
    assert is_running(record.pid, record.pid_started)
    assert not is_running(record.pid, record.pid_started + 1)


@pytest.mark.parametrize("name", ["kafkeep", "spark", "python", "digest"])
def test_a_runtime_differs_by_version_and_by_what_is_installed(name: str) -> None:
    mine = Runtime.current()
    other = replace(mine, **{name: "other"})
    difference = mine.difference(other)
    assert difference is not None
    assert name in difference or name == "digest"
    assert mine.difference(Runtime.current()) is None


def test_a_changed_file_of_kafkeep_changes_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "kafkeep"
    (package / "spark" / "resident").mkdir(parents=True)
    module = package / "spark" / "resident" / "record.py"
    module.write_text("old")
    monkeypatch.setattr("kafkeep.spark.resident.record.__file__", str(module))
    before = Runtime.current()
    module.write_text("newer")
    assert "was installed or changed" in str(before.difference(Runtime.current()))


def test_the_settings_of_a_record_hold_no_values(record: SessionRecord) -> None:
    kept = replace(record, settings={"spark.x": record.digest_of("p4ssw0rd")})
    write_record(kept)
    assert "p4ssw0rd" not in file_of_record().read_text()
    assert json.loads(file_of_record().read_text())["settings"] != {}


def test_the_property_of_the_proof_is_none_that_spark_hides_from_clients() -> None:
    hidden = "secret|password|passphrase|token|access[.]?key|credential"
    assert re.search(hidden, PROOF_KEY, re.IGNORECASE) is None
