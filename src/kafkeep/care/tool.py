"""The name under which reports and traces say what made them."""

from __future__ import annotations

from importlib.metadata import version

TOOL = f"kafkeep {version('kafkeep')}"
