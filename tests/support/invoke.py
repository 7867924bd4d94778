"""Run the command line in this process, as a shell would."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkeep.cli.main import main


class Cli:
    """Runs ``kafkeep``; what it printed is kept until the next run."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture
        self.out = b""
        self.err = ""

    def run(self, *arguments: str) -> int:
        """Return the exit code."""
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        self.out, err = self._capture.readouterr()
        self.err = err.decode()
        return int(ended.value.code or 0)

    def document(self, *arguments: str, code: int = 0) -> Any:
        """Run with ``--output json`` and return the one document on stdout."""
        assert self.run(*arguments, "--output", "json") == code, self.err
        return json.loads(self.out)
