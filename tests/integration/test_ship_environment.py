"""The environment that the guide ships: built, packed, and used by the executors of a cluster."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.run_kafkeep import kafkeep
from tests.support.spark_cluster import spark_cluster

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "spark-clusters.md").read_text()
BUILD = re.search(r"(?m)^build:.*\n\t\$\(BIN\)/(python .*)$", (ROOT / "Makefile").read_text())


def blocks(heading: str) -> list[str]:
    """Return the shell blocks of a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```bash\n(.*?)```", section, re.DOTALL)


def run(script: str, folder: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


def pack(folder: Path, environ: Mapping[str, str]) -> None:
    """Follow the guide in ``folder``, with this Python and the files of the checkout."""
    for name in ("constraints.txt", "deploy"):
        (folder / name).symlink_to(ROOT / name)
    assert BUILD is not None
    build = BUILD[1].replace("python", sys.executable, 1).removesuffix(".") + shlex.quote(str(ROOT))
    [recipe] = blocks("Ship the environment")
    run(
        recipe.replace("make build", build.replace("dist", str(folder / "dist"))).replace(
            "python3.11", sys.executable
        ),
        folder,
        environ,
    )


def kernels(environment: Path) -> frozenset[str]:
    """Return the names of the compiled loops in an environment."""
    return frozenset(path.name for path in environment.glob("lib/python*/**/kafkeep/**/*.nbc"))


def test_executors_run_the_wheel_in_the_environment_that_travels_with_the_job(
    s3_env: DevStatus, cluster: Cluster, topic_name: str, archive_address: str, tmp_path: Path
) -> None:
    cluster.create(topic_name, 2)
    for partition in range(2):
        cluster.fill(topic_name, 100, partition)
    # Nothing of the checkout is found but by the archive.
    hidden = ("PYTHONPATH", "PYSPARK_PYTHON", "VIRTUAL_ENV", "KAFKEEP_CACHE", "NUMBA_CACHE_DIR")
    environ = {name: text for name, text in os.environ.items() if name not in hidden}
    pack(tmp_path, environ)
    with tarfile.open(tmp_path / "kafkeep-env.tar.gz") as packed:
        assert any(name.endswith(".nbc") for name in packed.getnames()), "kernels travel with it"
    _, submit = blocks("Standalone")
    with spark_cluster(tmp_path / "spark", [dict.fromkeys(hidden, "")] * 2) as fleet:
        for given, wanted in (
            ("spark://master.example.org:7077", fleet.address),
            ("broker:9092", s3_env.bootstrap_servers),
            ("s3://backups/prod", archive_address),
            ("'.*' --follow", topic_name),
            ("spark-submit", "spark-submit --executor-memory 512m"),
        ):
            assert given in submit
            submit = submit.replace(given, wanted)
        # A cluster has its own spark-submit; here it is the one of the packed pyspark.
        installed = tmp_path / "kafkeep-env" / "bin"
        run(submit, tmp_path, {**environ, "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"})
        assert "Running task" in fleet.logs_of_executors()
        shipped = [path.parents[1] for path in (tmp_path / "spark").glob("*/*/*/env/bin/python")]
        assert shipped, "the archive was unpacked where executors ran"
        assert len({kernels(folder) for folder in (tmp_path / "kafkeep-env", *shipped)}) == 1
    info = kafkeep("info", "--archive", archive_address, "--output", "json").expect()
    assert '"records":200' in info.stdout.replace(" ", "")
