"""When to try again: one class of policy, and every policy that kafkeep uses.

What fails for the moment is tried again after a wait. Each wait is twice as long as the one before
it, up to a longest one. A policy ends after a number of attempts or at a deadline. One without
either ends when its caller does.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kafkeep.errors import TransientError

T = TypeVar("T")


def _system_chance() -> float:
    """Return a number below 1; forked workers would all draw the same from Python's generator."""
    return random.SystemRandom().random()


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Exponential waits between attempts; sleep, clock and chance are parameters for tests."""

    first_wait_s: float
    longest_wait_s: float = math.inf
    """Never shorter than the first wait."""
    doublings: int = 30
    """How often the first wait is doubled at most."""
    attempts: int | None = None
    """How many attempts there are in all."""
    deadline_s: float | None = None
    """How long after the first attempt a wait may end."""
    answer_s: float = math.inf
    """How long one answer may take. A policy with that much time makes two attempts at least."""
    round_retries: int | None = None
    """After so many retries the waits begin anew, behind a wait of ``round_wait_s``."""
    round_wait_s: float = 0.0
    jitter: bool = False
    """Wait between half of the time and all of it, so that clients do not retry in step."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = _system_chance

    def wait_s(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row, without jitter."""
        doubled = max(0, failures - 1)
        if self.round_retries is not None:
            doubled %= self.round_retries + 1
            if doubled == self.round_retries:
                return self.round_wait_s
        longest = max(self.longest_wait_s, self.first_wait_s)
        return min(longest, self.first_wait_s * 2.0 ** min(doubled, self.doublings))

    def begin(self, deadline: float | None = None) -> Retries:
        """Begin one run of the policy; ``deadline`` is a reading of its clock."""
        if deadline is None and self.deadline_s is not None:
            deadline = self.clock() + self.deadline_s
        return Retries(self, deadline)

    def call(self, what: str, attempt: Callable[[int], T]) -> T:
        """Call ``attempt(number)`` until it does not raise TransientError or the policy ends.

        Then the last error is raised, of its own class, with the number of attempts in it.
        """
        retries = self.begin()
        while True:
            try:
                return attempt(retries.failures)
            except TransientError as error:
                wait = retries.next_wait_s()
                if wait is None:
                    count = retries.failures
                    tried = f"{what} failed after {count} attempt{'s' if count > 1 else ''}"
                    raise type(error)(f"{tried}: {error.message}", hint=error.hint) from error
            self.sleep(wait)


class Retries:
    """One run of a policy: what its caller asks after each failed attempt."""

    def __init__(self, policy: RetryPolicy, deadline: float | None) -> None:
        self._policy = policy
        self._deadline = deadline
        self.failures = 0

    def next_wait_s(self) -> float | None:
        """Count a failure and return how long to wait; None when no attempt is left."""
        policy = self._policy
        self.failures += 1
        if policy.attempts is not None and self.failures >= policy.attempts:
            return None
        wait = policy.wait_s(self.failures)
        if policy.jitter:
            wait *= 0.5 + policy.chance() / 2
        if self._deadline is not None and policy.clock() + wait > self._deadline:
            is_first = self.failures == 1 and (policy.deadline_s or 0.0) >= policy.answer_s
            return wait if is_first else None
        return wait


STORE = RetryPolicy(
    first_wait_s=0.1, longest_wait_s=10.0, deadline_s=60.0, answer_s=60.0, jitter=True
)
"""A request to object storage, unless the options of the store say otherwise."""
COMMIT = RetryPolicy(first_wait_s=0.1, longest_wait_s=5.0, attempts=8)
"""A commit of a log whose outcome is unknown."""
JOURNAL = RetryPolicy(first_wait_s=0.05, attempts=6)
"""A change of the Connect service's state whose outcome is unknown."""
KAFKA = RetryPolicy(first_wait_s=0.05, longest_wait_s=1.0)
"""A request to brokers, until the deadline of the call."""
KAFKA_GROUPS = RetryPolicy(first_wait_s=0.1, longest_wait_s=1.0)
"""A request to the coordinators of consumer groups, until the deadline of the call."""
KAFKA_CONNECTION = RetryPolicy(first_wait_s=0.02, longest_wait_s=0.5)
"""A connection to one broker, until the deadline of the call."""
KAFKA_TOPIC = RetryPolicy(first_wait_s=0.05, longest_wait_s=0.05)
"""A topic that is being created or deleted, until the deadline of the call."""
TRANSACTION = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.2, deadline_s=60.0)
"""A request to the coordinator of a transaction."""
TRANSACTION_MARKER = RetryPolicy(first_wait_s=0.0005, longest_wait_s=0.05, deadline_s=30.0)
"""The marker of a transaction that has ended."""
PRODUCE = RetryPolicy(first_wait_s=0.2, longest_wait_s=0.2)
"""Records that a target partition did not take."""
REGISTRY = RetryPolicy(first_wait_s=0.2, attempts=4)
"""A request to a schema registry."""
FOLLOW = RetryPolicy(first_wait_s=1.0, longest_wait_s=15.0, doublings=10)
"""A cycle of a following backup; its first wait is the interval between two cycles."""
CONNECTOR = RetryPolicy(first_wait_s=1.0, longest_wait_s=15.0)
"""What a running connector does."""
CONNECTOR_START = RetryPolicy(first_wait_s=0.5, longest_wait_s=10.0)
"""The start of a connector."""
LEADER = RetryPolicy(first_wait_s=0.02, longest_wait_s=0.02, deadline_s=10.0)
"""A worker that becomes the leader while a request waits for one."""
LATE_COMMIT = RetryPolicy(first_wait_s=0.5, longest_wait_s=0.5, attempts=11)
"""The commit of an intent whose objects are all there."""
LOCAL_SERVER = RetryPolicy(first_wait_s=0.03, longest_wait_s=0.03)
"""A server of the development environment that starts or ends."""
