from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep import failpoint as failpoints
from kafkeep.errors import TransientError, UnknownOutcomeError, UsageError
from kafkeep.failpoint import PLACES, arm, failpoint


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")


def test_a_place_does_nothing_when_another_one_is_armed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    monkeypatch.setenv("KAFKEEP_FAILPOINT_TRACE", str(trace))
    arm("commit.after:raise")
    failpoint("commit.before")
    assert not trace.exists()
    with pytest.raises(TransientError):
        failpoint("commit.after")
    assert trace.read_text() == "commit.after\n"


def test_a_place_does_nothing_once_all_are_disarmed() -> None:
    arm("commit.before:raise")
    with pytest.raises(TransientError):
        failpoint("commit.before")
    arm("")
    failpoint("commit.before")


def test_raise_and_drop_give_their_errors_at_the_named_place_alone() -> None:
    arm("open.before:raise; open.after:drop")
    failpoint("commit.after")
    with pytest.raises(TransientError, match=r"open\.before"):
        failpoint("open.before")
    with pytest.raises(UnknownOutcomeError, match=r"open\.after"):
        failpoint("open.after")


def test_a_number_names_the_one_time_it_happens() -> None:
    arm("task.start:raise@3")
    failpoint("task.start")
    failpoint("task.start")
    with pytest.raises(TransientError):
        failpoint("task.start")
    failpoint("task.start")


def test_chances_repeat_with_the_seed() -> None:
    def run() -> list[bool]:
        arm("task.start:raise@p=0.5", seed=7)
        hits = []
        for _ in range(50):
            try:
                failpoint("task.start")
                hits.append(False)
            except TransientError:
                hits.append(True)
        return hits

    first = run()
    assert run() == first
    assert 5 < sum(first) < 45


def test_sleep_waits() -> None:
    arm("task.start:sleep=30")
    started = time.monotonic()
    failpoint("task.start")
    assert time.monotonic() - started >= 0.03


def test_hold_waits_for_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("KAFKEEP_FAILPOINT_GATE", str(gate))
    arm("task.start:hold")
    held = threading.Thread(target=failpoint, args=["task.start"])
    held.start()
    held.join(0.1)
    assert held.is_alive()
    gate.touch()
    held.join(PATIENCE_S)
    assert not held.is_alive()


def run_twice_past(place: str, *, start: str = "") -> tuple[int, str]:
    """Pass a place twice in a process whose environment arms the second time."""
    imports = "from kafkeep.failpoint import arm_from_environment, failpoint\n"
    passes = f"failpoint({place!r}); print('once')\nfailpoint({place!r}); print('twice')\n"
    done = subprocess.run(
        [sys.executable, "-u", "-c", f"{imports}{start}\n{passes}"],
        env={
            **os.environ,
            "KAFKEEP_FAILPOINT": f"{place}:exit@2",
            "KAFKEEP_SEED": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_exit_ends_the_process_as_kill_does() -> None:
    assert run_twice_past("task.start", start="arm_from_environment()") == (137, "once\n")


def test_the_environment_arms_nothing_by_an_import_alone() -> None:
    assert run_twice_past("task.start") == (0, "once\ntwice\n")


@pytest.mark.parametrize(
    "spec",
    [
        "task.start",
        "task.start:explode",
        ":exit",
        "task.start:exit@x",
        "task.start:raise@p=x",
        "task.start:sleep=",
        "tusk.start:exit",
    ],
)
def test_a_spec_that_is_not_understood_is_refused_by_name(spec: str) -> None:
    with pytest.raises(UsageError, match="KAFKEEP_FAILPOINT"):
        arm(spec)


def test_a_name_that_is_near_is_reported() -> None:
    with pytest.raises(UsageError, match=r"there is no 'tusk.start', only 'task.start'"):
        arm("tusk.start:exit")


SOURCE = Path(failpoints.__file__).parent
TESTS = Path(__file__).parents[1]
CREATED_DOCUMENTS = ("open", "intent", "commit", "journal")


def places_in_the_source() -> set[str]:
    """Return every place in the code; those of numbered documents are named after the document."""
    found: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        text = file.read_text()
        found |= set(re.findall(r'failpoint\("([^"]+)"\)', text))
        for ending in re.findall(r'failpoint\(f"\{place\}\.(\w+)"\)', text):
            found |= {f"{place}.{ending}" for place in CREATED_DOCUMENTS}
    return found


def test_every_place_in_the_source_is_listed_with_what_it_leaves() -> None:
    assert places_in_the_source() == set(PLACES)


def test_every_place_is_died_at_by_a_test_of_the_long_suite() -> None:
    """The files ``make test-kill`` runs; that a place was reached is for them to say."""
    makefile = (TESTS.parent / "Makefile").read_text()
    recipe = makefile.partition("test-kill:")[2].partition("\n\n")[0]
    files = re.findall(r"tests/[\w/*]+\.py", recipe)
    texts = [file.read_text() for name in files for file in sorted(TESTS.parent.glob(name))]
    assert texts, "make test-kill names no files"
    died = {name for text in texts for name in re.findall(r'"([\w.]+):exit', text)}
    died |= {n for text in texts for n in re.findall(r'^    "(follow\.\w+)",$', text, re.M)}
    assert set(PLACES) - died == set()
