"""A release of Kafka, and what has to be done differently for an older one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.errors import UsageError

DEFAULT_KAFKA = "4.1.0"
_SPELLING = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})")
_OLDEST = (2, 8, 0)
_FIRST_WITH_KRAFT = (3, 3, 0)
_FIRST_WITH_SCRAM_IN_KRAFT = (3, 5, 0)
_FIRST_WITH_LOG4J_2 = (4, 0, 0)
_FIRST_WITH_SHARE_GROUPS = (4, 0, 0)


@dataclass(frozen=True)
class KafkaVersion:
    """A release; ``parse`` refuses what is none, and what is older than 2.8."""

    numbers: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> KafkaVersion:
        """Read ``3.9.1``; UsageError for anything that is not three numbers, or too old."""
        found = _SPELLING.fullmatch(text)
        if found is None:
            raise UsageError(
                f"{text!r} is not a version of Kafka", hint="Write three numbers, such as 3.9.1."
            )
        major, minor, patch = map(int, found.groups())
        if (major, minor, patch) < _OLDEST:
            raise UsageError(
                f"Kafka {text} is older than 2.8.0, the oldest version that kafkeep supports"
            )
        return cls((major, minor, patch))

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers))

    def needs_zookeeper(self, *, secure: bool) -> bool:
        """Whether its brokers need ZooKeeper; KRaft came with 3.3, and learned SCRAM with 3.5."""
        return self.numbers < (_FIRST_WITH_SCRAM_IN_KRAFT if secure else _FIRST_WITH_KRAFT)

    @property
    def has_share_groups(self) -> bool:
        """Whether it knows the settings of share groups."""
        return self.numbers >= _FIRST_WITH_SHARE_GROUPS

    @property
    def logs_with_log4j_1(self) -> bool:
        """Whether its classes were compiled against Log4j 1."""
        return self.numbers < _FIRST_WITH_LOG4J_2
