"""The package that ``make build`` makes, installed where nothing else of kafkeep is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"kafkeep-{PROJECT['version']}"
DATA_FILES = {
    "kafkeep/py.typed",
    "kafkeep/spark/log4j2.properties",
    "kafkeep/records/partitioners/joda_names.tsv.xz",
    "pyspark_kafkeep/__init__.py",
}


def run(*command: object, cwd: Path) -> str:
    """Run a command without the tests' own import path, and return what it prints."""
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the wheel and the sdist; the wheel is made from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


def test_the_build_makes_a_wheel_and_an_sdist(built: Path) -> None:
    assert {path.name for path in built.iterdir()} == {
        f"{NAME}-py3-none-any.whl",
        f"{NAME}.tar.gz",
    }


def test_the_wheel_holds_every_module_and_the_files_they_read(built: Path) -> None:
    held = set(zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl").namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules | DATA_FILES <= held
    assert f"{NAME}.dist-info/licenses/LICENSE" in held


def test_the_sdist_holds_what_one_reads_first_and_no_tests(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as packed:
        held = {name.removeprefix(f"{NAME}/") for name in packed.getnames()}
    assert {"README.md", "LICENSE", "ARCHITECTURE.md", "docs/format.md", "pyproject.toml"} <= held
    assert not [name for name in held if name.startswith(("tests", "bench"))]


def test_the_wheel_runs_in_a_clean_environment(built: Path, tmp_path: Path) -> None:
    """Dependencies come from the environment of the tests: nothing is downloaded."""
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    python = home / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--no-index", "--no-deps", built / f"{NAME}-py3-none-any.whl"),
        cwd=tmp_path,
    )
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", where, cwd=tmp_path).strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    told = run(python, "-c", "import kafkeep; print(kafkeep.__file__)", cwd=tmp_path)
    assert Path(told.strip()).is_relative_to(home)
    command = home / "bin" / "kafkeep"
    assert run(command, "--version", cwd=tmp_path) == f"kafkeep {PROJECT['version']}\n"
    assert "backup" in run(command, "--help", cwd=tmp_path)


def test_pre_commit_runs_the_checks_of_make_check() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [repository] = config["repos"]
    assert repository["repo"] == "local"
    assert [(hook["entry"], hook["language"]) for hook in repository["hooks"]] == [
        ("make check", "system")
    ]
