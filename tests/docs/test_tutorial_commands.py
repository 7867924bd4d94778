from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.doc_shell import run_group


@pytest.mark.integration
@pytest.mark.timeout(1800)
def test_the_commands_of_the_tutorials_run(tmp_path: Path) -> None:
    run_group("tutorials", tmp_path)
