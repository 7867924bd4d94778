"""Verifications as runs: what they find, when an archive counts as verified, and interruptions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.connect.memory_service import MemoryService
from tests.support.waiting import until

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.model import RestError
from kafkeep.connect.runs import verification
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.runs.drill import DrillRuns
from kafkeep.connect.runs.run import Run, RunStage
from kafkeep.connect.runs.verification import VerificationRuns
from kafkeep.errors import KafkeepError, NoSuchArchiveError
from kafkeep.maintenance.report import report_from_json
from kafkeep.maintenance.verify.last_verified import last_verified_ms, load_verified
from kafkeep.options.option import ConfigErrors
from kafkeep.store.memory import MemoryStore
from kafkeep.store.open import open_store


class VerifiedService(MemoryService):
    """Counts how often it was told that an archive is verified."""

    expired = 0

    def expire_verified(self) -> None:
        self.expired += 1


class Scene:
    """An archive in a folder, and a board that verifies it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.store = open_store(str(folder))
        self.built = build_archive(
            self.store,
            {"orders": [partition(0, 10, 25)], "users": [partition(0, 3)]},
        )
        self.service = VerifiedService()
        self.place = ArchivePlace(address=str(folder), connectors=("sink",))
        self.service.places = [self.place]
        self.state = MemoryStore("state")
        self.board = self.open_board()

    def open_board(self) -> RunBoard:
        kind = VerificationRuns(lambda: self.service)
        board = RunBoard(RunDocuments(self.state), [kind], worker_id="w")
        board.reconcile()
        return board

    def verify(self, **asked: str) -> Run:
        run = self.board.create("verification", {"archive.id": self.place.id, **asked}, "ann")
        return self.wait(self.board.start(run.id, "ann"))

    def wait(self, run: Run) -> Run:
        until(lambda: self.board.find(run.id).stage not in ("queued", "running"), "it has ended")
        return self.board.find(run.id)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("deep", ["false", "true"])
def test_an_intact_archive_is_verified_with_a_report_and_a_trace(scene: Scene, deep: str) -> None:
    run = scene.verify(deep=deep)
    assert (run.stage, run.verdict, run.error) == (RunStage.DONE, "good", "")
    assert (run.result["verdict"], run.result["objects"], run.result["records"]) == (
        *("intact", 3),
        28,
    )
    assert run.progress is not None
    assert (run.progress.done, run.progress.total) == (3, 3)
    report = scene.board.report(run)
    assert report is not None
    assert report_from_json(report).verdict == "intact"
    trace = load_verified(scene.store, "backup")
    assert trace is not None
    assert trace.commit == scene.built.log.state.commit
    assert scene.service.expired == 1


def test_a_damaged_archive_is_bad_and_does_not_count_as_verified(scene: Scene) -> None:
    victim = scene.built.entries[1]
    (scene.folder / victim.key).write_bytes(b"x" * victim.size_bytes)
    run = scene.verify()
    assert (run.verdict, run.result["verdict"], run.result["damaged"]) == ("bad", "damaged", 1)
    [finding] = run.result["findings"]
    assert (finding["kind"], finding["key"]) == ("altered", victim.key)
    assert last_verified_ms(scene.store, "backup") is None
    assert scene.service.expired == 0


def test_gaps_are_a_warning(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "first")
    (tmp_path / "second").mkdir()
    store = open_store(str(tmp_path / "second"))
    build_archive(store, {"orders": [partition(0, 5, gaps=[OffsetRange(5, 9)])]})
    scene.place = ArchivePlace(address=str(tmp_path / "second"))
    scene.service.places = [scene.place]
    run = scene.verify()
    assert (run.verdict, run.result["verdict"], run.result["warnings"]) == ("warn", "intact", 1)


def test_a_topic_alone_is_verified_without_a_trace_of_its_log(scene: Scene) -> None:
    victim = scene.built.entries[0]
    (scene.folder / victim.key).unlink()
    users = scene.verify(topics="users")
    assert (users.verdict, users.result["objects"], users.result["topics"]) == (
        *("good", 1),
        ["users"],
    )
    assert last_verified_ms(scene.store, "backup") is None
    assert scene.verify(topics="orders").verdict == "bad"
    assert scene.verify(name="backup").verdict == "bad"


def test_a_worker_that_dies_before_the_end_leaves_no_trace_and_the_next_one_verifies_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_place: str) -> None:
        scene.board.stop_all()  # the lease is lost
        raise KafkeepError("the worker died")

    monkeypatch.setattr(verification, "failpoint", die)
    run = scene.board.create("verification", {"archive.id": scene.place.id}, "ann")
    scene.board.start(run.id, "ann")
    until(lambda: not scene.board._attempts, "the attempt has ended")
    assert last_verified_ms(scene.store, "backup") is None
    monkeypatch.undo()
    scene.board = scene.open_board()
    assert scene.wait(run).verdict == "good"
    assert last_verified_ms(scene.store, "backup") is not None


def test_a_stopped_verification_reads_no_further(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def verify(*_: object, on_progress: object, **__: object) -> None:
        assert callable(on_progress)
        for number in range(1, 1000):
            read.append(number)
            if number == 3:
                scene.board.cancel(run.id)
            on_progress(number, 1000)

    monkeypatch.setattr(verification, "verify", verify)
    run = scene.board.create("verification", {"archive.id": scene.place.id}, "ann")
    scene.board.start(run.id, "ann")
    until(lambda: not scene.board._attempts, "the attempt has ended")
    assert read == [1, 2, 3]
    assert scene.board.find(run.id).stage is RunStage.CANCELLED


@pytest.mark.parametrize("kind", ["verification", "drill"])
def test_what_cannot_be_started_is_refused_by_name(scene: Scene, kind: str, tmp_path: Path) -> None:
    empty = ArchivePlace(address=str(tmp_path / "later"))
    scene.service.places.append(empty)
    runs = {
        "verification": VerificationRuns(lambda: scene.service),
        "drill": DrillRuns(lambda: scene.service.catalog.archives, lambda: pytest.fail("unused")),
    }[kind]
    runs.check({"archive.id": scene.place.id, "topics": "", "name": "backup"})
    with pytest.raises(ConfigErrors, match=r"archive\.id: missing"):
        runs.check({})
    with pytest.raises(ConfigErrors, match=r"topic: .*topics"):
        runs.check({"archive.id": scene.place.id, "topic": "orders"})
    with pytest.raises(RestError, match="uses an archive"):
        runs.check({"archive.id": "0123456789"})
    with pytest.raises(RestError, match="no log named"):
        runs.check({"archive.id": scene.place.id, "name": "other"})
    with pytest.raises(NoSuchArchiveError):
        runs.check({"archive.id": empty.id})
