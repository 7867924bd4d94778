from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "pyarrow", "numba", "pyspark", "boto3", "kafka", "obstore", "zstandard")


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, kafkeep.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("verb", ["info", "ls", "du"])
def test_verbs_that_read_only_the_log_load_no_compiler_and_no_pandas(verb: str) -> None:
    archive = Path(__file__).parents[2] / "golden" / "2" / "whole"
    code = (
        "import sys\nfrom kafkeep.cli.main import main\ntry:\n"
        f"    main(['{verb}', '--archive', '{archive}', '--output', 'json'])\n"
        "except SystemExit as ended:\n"
        "    print(ended.code, [m for m in ('numba', 'pandas', 'pyspark') if m in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 []"
