from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kafkeep.errors import TransientError, UnknownOutcomeError, UsageError
from kafkeep.failpoint import arm, failpoint


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")


def test_nothing_happens_when_none_is_armed() -> None:
    failpoint("commit.before")


def test_raise_and_drop_give_their_errors_at_the_named_place_alone() -> None:
    arm("a:raise; b:drop")
    failpoint("c")
    with pytest.raises(TransientError, match="a"):
        failpoint("a")
    with pytest.raises(UnknownOutcomeError, match="b"):
        failpoint("b")


def test_a_number_names_the_one_time_it_happens() -> None:
    arm("a:raise@3")
    failpoint("a")
    failpoint("a")
    with pytest.raises(TransientError):
        failpoint("a")
    failpoint("a")


def test_chances_repeat_with_the_seed() -> None:
    def run() -> list[bool]:
        arm("a:raise@p=0.5", seed=7)
        hits = []
        for _ in range(50):
            try:
                failpoint("a")
                hits.append(False)
            except TransientError:
                hits.append(True)
        return hits

    first = run()
    assert run() == first
    assert 5 < sum(first) < 45


def test_sleep_waits() -> None:
    arm("a:sleep=30")
    started = time.monotonic()
    failpoint("a")
    assert time.monotonic() - started >= 0.03


def test_exit_ends_the_process_as_kill_does() -> None:
    code = "from kafkeep.failpoint import failpoint\nfailpoint('a')\nfailpoint('a')\nprint('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"KAFKEEP_FAILPOINT": "a:exit@2", "KAFKEEP_SEED": "1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (137, b"")


@pytest.mark.parametrize("spec", ["a", "a:explode", ":exit", "a:exit@x", "a:raise@p=x", "a:sleep="])
def test_a_spec_that_is_not_understood_is_refused_by_name(spec: str) -> None:
    with pytest.raises(UsageError, match="KAFKEEP_FAILPOINT"):
        arm(spec)
