"""One thing looked at, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafkeep.errors import KafkeepError


class Verdict(StrEnum):
    """What came of a check."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at; ``exit_code`` is 0 unless it failed."""

    verdict: Verdict
    subject: str
    what: str
    hint: str | None = None
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``doctor --output json``."""
        return {
            "verdict": self.verdict.value,
            "subject": self.subject,
            "what": self.what,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


def passed(subject: str, what: str) -> Check:
    """Return a check that all is well with."""
    return Check(Verdict.PASS, subject, what)


def warned(subject: str, what: str, hint: str | None = None) -> Check:
    """Return a check that does not stop a run, but is worth knowing."""
    return Check(Verdict.WARN, subject, what, hint)


def failed(subject: str, error: KafkeepError) -> Check:
    """Return a check that a run would end with ``error`` on."""
    return Check(Verdict.FAIL, subject, error.message, error.hint, error.exit_code)


def guarded(subject: str, steps: Iterable[Check]) -> Iterator[Check]:
    """Yield the checks of ``steps``; an error that ends them is a failed check."""
    try:
        yield from steps
    except KafkeepError as error:
        yield failed(subject, error)
