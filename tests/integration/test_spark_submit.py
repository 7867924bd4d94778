"""kafkeep under ``spark-submit``: the session that was submitted does the work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import Cluster
from kafkeep.dev import DevStatus
from runs import kafkeep

pytestmark = pytest.mark.integration
MAIN = Path(__file__).parents[2] / "deploy" / "spark_main.py"
SUBMIT = Path(sys.executable).parent / "spark-submit"


def test_the_submitted_session_runs_a_backup(
    services: DevStatus, cluster: Cluster, topic_name: str, tmp_path: Path
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
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=500, check=False
    )
    assert run.returncode == 0, run.stderr[-5000:]

    info = kafkeep("info", "--archive", tmp_path / "archive", "--output", "json").expect()
    assert '"records":100' in info.stdout.replace(" ", "")
    told = "".join(path.read_text() for path in events.rglob("*") if path.suffix != ".crc")
    assert '"App Name":"submitted"' in told
    assert '"SparkListenerTaskEnd"' in told
