"""Retry policies: the class, and every policy that kafkeep uses.

A transient failure is retried after a wait. Each wait is twice as long as the previous one, up to
a maximum. A policy ends after a number of attempts or at a deadline. A policy without either ends
when its caller stops.
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
    """Return a number in [0, 1). Forked workers would share the state of Python's generator."""
    return random.SystemRandom().random()


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Exponential waits between attempts; sleep, clock and chance are parameters for tests."""

    first_wait_s: float
    longest_wait_s: float = math.inf
    """Never shorter than the first wait."""
    doublings: int = 30
    """The maximum number of times the first wait is doubled."""
    attempts: int | None = None
    """The total number of attempts."""
    deadline_s: float | None = None
    """The time after the first attempt by which a wait must end."""
    answer_s: float = math.inf
    """The timeout of one attempt. A policy with at least this much time makes two attempts."""
    round_retries: int | None = None
    """After this many retries and a wait of ``round_wait_s``, the waits start from the first."""
    round_wait_s: float = 0.0
    jitter: bool = False
    """Wait between half of the time and all of it, so that clients do not retry simultaneously."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = _system_chance

    def wait_s(self, failures: int) -> float:
        """Return the wait after this many consecutive failures, without jitter."""
        doubled = max(0, failures - 1)
        if self.round_retries is not None:
            doubled %= self.round_retries + 1
            if doubled == self.round_retries:
                return self.round_wait_s
        longest = max(self.longest_wait_s, self.first_wait_s)
        return min(longest, self.first_wait_s * 2.0 ** min(doubled, self.doublings))

    def begin(self, deadline: float | None = None) -> Retries:
        """Begin one run of the policy; ``deadline`` is a time of its clock."""
        if deadline is None and self.deadline_s is not None:
            deadline = self.clock() + self.deadline_s
        return Retries(self, deadline)

    def call(self, what: str, attempt: Callable[[int], T]) -> T:
        """Call ``attempt(number)`` until it succeeds or the policy ends.

        Only TransientError is retried. At the end of the policy, raise the class of the last error
        with the number of attempts in the message.
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
    """One run of a policy; its caller asks for the next wait after each failed attempt."""

    def __init__(self, policy: RetryPolicy, deadline: float | None) -> None:
        self._policy = policy
        self._deadline = deadline
        self.failures = 0

    def next_wait_s(self) -> float | None:
        """Count a failure and return the next wait; None when no attempt remains."""
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
"""Records that a target partition did not accept."""
REGISTRY = RetryPolicy(first_wait_s=0.2, attempts=4)
"""A request to a schema registry."""
FOLLOW = RetryPolicy(first_wait_s=1.0, longest_wait_s=15.0, doublings=10)
"""A cycle of a following backup; its first wait is the interval between two cycles."""
CONNECTOR = RetryPolicy(first_wait_s=1.0, longest_wait_s=15.0)
"""A running connector that failed."""
CONNECTOR_START = RetryPolicy(first_wait_s=0.5, longest_wait_s=10.0)
"""The start of a connector."""
LEADER = RetryPolicy(first_wait_s=0.02, longest_wait_s=0.02, deadline_s=10.0)
"""A worker that becomes the leader while a request waits for one."""
LATE_COMMIT = RetryPolicy(first_wait_s=0.5, longest_wait_s=0.5, attempts=11)
"""The commit of an intent whose objects are all stored."""
LOCAL_SERVER = RetryPolicy(first_wait_s=0.03, longest_wait_s=0.03)
"""A server of the development environment that starts or stops."""
