"""The built wheel under ``spark-submit``: the session that was submitted does the work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.run_kafkeep import kafkeep

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
MAIN = ROOT / "deploy" / "spark_main.py"
PAGE = (ROOT / "deploy" / "spark-submit.md").read_text()
SUBMIT = Path(sys.executable).parent / "spark-submit"


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as ``make build`` does, and install what the page installs; return where."""
    folder = tmp_path_factory.mktemp("wheel")
    [recipe] = re.findall(
        r"(?m)^build:.*\n\t\$\(BIN\)/python (.*)$", (ROOT / "Makefile").read_text()
    )
    [pattern] = set(re.findall(r"dist/\S+\.whl", PAGE))
    build = shlex.split(recipe.replace("dist", str(folder / "dist")))
    _run([sys.executable, *build], cwd=ROOT)
    [wheel] = folder.glob(pattern)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"kafkeep/cli/main.py", "pyspark_kafkeep/__init__.py"} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    _run([*pip, str(wheel)], cwd=folder)
    return site


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_submitted_session_runs_a_backup_with_the_built_wheel(
    services: DevStatus,
    cluster: Cluster,
    topic_name: str,
    tmp_path: Path,
    installed_wheel: Path,
) -> None:
    cluster.create(topic_name, 1)
    cluster.fill(topic_name, 100)
    events = tmp_path / "events"
    events.mkdir()
    command = [str(SUBMIT), "--master", "local[1]", "--name", "submitted"]
    for setting in (
        "spark.eventLog.enabled=true",
        "spark.eventLog.rolling.enabled=false",
        "spark.eventLog.compress=false",
        f"spark.eventLog.dir={events}",
    ):
        command += ["--conf", setting]
    command += [str(MAIN), "backup", "--bootstrap-servers", services.bootstrap_servers]
    command += ["--archive", str(tmp_path / "archive"), "--topics", topic_name, "--output", "json"]
    environ = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(installed_wheel),
    }
    run = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False
    )
    assert run.returncode == 0, run.stderr[-5000:]

    info = kafkeep("info", "--archive", tmp_path / "archive", "--output", "json").expect()
    assert '"records":100' in info.stdout.replace(" ", "")
    told = "".join(path.read_text() for path in events.rglob("*") if path.suffix != ".crc")
    assert '"App Name":"submitted"' in told
    assert '"SparkListenerTaskEnd"' in told
