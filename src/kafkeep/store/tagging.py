"""What happens to an object whose store refuses its tags: the options decide."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kafkeep.errors import AccessDeniedError, EnvironmentFault, KafkeepError, TransientError
from kafkeep.retry import RetryPolicy

log = logging.getLogger(__name__)


class TagFailures:
    """Logs the failures of one store, or raises them when ``strict``."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def put(
        self, key: str, put: Callable[[Mapping[str, str]], None], tags: Mapping[str, str]
    ) -> None:
        """Create an object with tags, or without them if the store refuses the tags."""
        try:
            put(tags)
        except (AccessDeniedError, EnvironmentFault) as error:
            if self._strict or not tags:
                raise
            put({})
            self.report(key, error)

    def set(self, key: str, set_tags: Callable[[], None]) -> None:
        """Tag an object that exists."""
        try:
            set_tags()
        except (AccessDeniedError, EnvironmentFault) as error:
            self.report(key, error)

    def set_retrying(self, key: str, set_tags: Callable[[], None], retry: RetryPolicy) -> None:
        """Tag an object that was sent in parts."""
        try:
            retry.call(f"tagging {key}", lambda _number: set_tags())
        except TransientError as error:
            self.report(key, error)

    def report(self, key: str, error: KafkeepError) -> None:
        """Log that an object has no tags, or raise ``error``."""
        if self._strict:
            raise error
        log.warning("%s has no tags: %s", key, error.message)
