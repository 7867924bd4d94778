"""The releases that the tests run on: the defaults, or what the environment asks for."""

from __future__ import annotations

import os

TEST_KAFKA = os.environ.get("KAFKEEP_TEST_KAFKA") or None
"""The release of Kafka; None is the default."""
