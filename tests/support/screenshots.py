"""Where the tests of the web console keep what they saw."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "artefacts" / "screenshots"
