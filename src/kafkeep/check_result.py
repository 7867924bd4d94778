"""The result of one check of a preflight, of ``doctor`` or of a drill."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class CheckStatus(StrEnum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; ``exit_code`` is 0 unless it failed."""

    verdict: CheckStatus
    subject: str
    what: str
    hint: str | None = None
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``--output json`` prints."""
        return {
            "verdict": self.verdict.value,
            "subject": self.subject,
            "what": self.what,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }
