"""Servers that are built or installed once per machine, and kept beside the downloads.

MinIO and fake-gcs-server are built by Go from its module proxy, Azurite is installed by npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from kafkeep.dev.downloads import Progress, cached
from kafkeep.errors import EnvironmentFault

MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
FAKE_GCS_VERSION = "v1.56.1"
AZURITE_VERSION = "3.37.0"


def minio_command(progress: Progress = lambda _: None) -> Path:
    """Return the MinIO server: one on PATH, else one that is built once (minutes of CPU)."""
    if found := shutil.which("minio"):
        return Path(found)
    return _go_build("MinIO", "github.com/minio/minio", MINIO_VERSION, progress)


def fake_gcs_command(progress: Progress = lambda _: None) -> Path:
    """Return fake-gcs-server, an emulator of Google Cloud Storage, which is built once."""
    module = "github.com/fsouza/fake-gcs-server"
    return _go_build("fake-gcs-server", module, FAKE_GCS_VERSION, progress)


def azurite_command(progress: Progress = lambda _: None) -> tuple[str, Path]:
    """Return Node.js and Azurite's blob service, an emulator of Azure, which is installed once."""
    node = _tool("node", "Azurite", "Install Node.js 20 or newer, with npm.")

    def fill(folder: Path) -> None:
        argv = [_tool("npm", "Azurite", "Install npm."), "install", "--prefix", str(folder)]
        argv += ["--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{AZURITE_VERSION}"]
        _run("Azurite", argv, {})

    what = f"installing Azurite {AZURITE_VERSION} with npm (365 MB), once"
    home = cached(f"azurite-{AZURITE_VERSION}", fill, progress, what)
    return node, home / "node_modules/azurite/dist/src/blob/main.js"


def _go_build(name: str, module: str, version: str, progress: Progress) -> Path:
    def fill(folder: Path) -> None:
        hint = f"Install Go 1.24 or newer to build {name}, or put its command on PATH."
        argv = [_tool("go", name, hint), "install", f"{module}@{version}"]
        _run(name, argv, {"GOBIN": str(folder)})

    command = module.rpartition("/")[2]
    what = f"building {name} {version} with Go, once; this takes minutes"
    return cached(f"{command}-{version}", fill, progress, what) / command


def _tool(command: str, name: str, hint: str) -> str:
    found = shutil.which(command)
    if found is None:
        raise EnvironmentFault(f"{name} needs the command {command}, which is missing", hint=hint)
    return found


def _run(name: str, argv: list[str], environment: dict[str, str]) -> None:
    settings = {**os.environ, **environment}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=settings)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-8:])
        raise EnvironmentFault(
            f"{name} could not be installed", hint=f"Check the network. The output ends:\n{tail}"
        )
