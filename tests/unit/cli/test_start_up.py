from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "pyarrow", "numba", "pyspark", "boto3", "kafka", "obstore", "zstandard")


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, kafkeep.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
