"""Ways to make a check, and to turn an error into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkeep.check import Check, Verdict
from kafkeep.errors import KafkeepError


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
