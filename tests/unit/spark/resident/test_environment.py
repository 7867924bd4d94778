"""A task in the resident session has the environment of its command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kafkeep.spark.resident.control import _server_environment
from kafkeep.spark.resident.environment import CommandEnvironment, RunInEnvironment

WORKER = """
import json, os, sys
from kafkeep.spark.resident.environment import CommandEnvironment, RunInEnvironment
def task(parts):
    yield dict(os.environ), os.getcwd(), os.umask(0)
environment = CommandEnvironment(json.loads(sys.argv[1]), sys.argv[2], 0o027)
print(json.dumps(list(RunInEnvironment(environment, task)([]))[0]))
"""


def test_a_task_sees_the_variables_the_folder_and_the_mode_of_its_command(
    tmp_path: Path,
) -> None:
    command = {"AWS_ACCESS_KEY_ID": "of-the-command", "PATH": "/bin", "SPARK_LOCAL_IP": "9.9.9.9"}
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, json.dumps(command), str(tmp_path)],
        env={
            "PYTHONPATH": ":".join(sys.path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AWS_ACCESS_KEY_ID": "of-the-session",
            "AWS_SESSION_TOKEN": "of-the-session",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    variables, folder, umask = json.loads(ended.stdout)
    assert variables["AWS_ACCESS_KEY_ID"] == "of-the-command"
    assert "AWS_SESSION_TOKEN" not in variables
    assert variables["SPARK_LOCAL_IP"] == "127.0.0.1", "Spark's own stay"
    assert folder == str(tmp_path)
    assert umask == 0o027


def test_an_environment_does_not_show_its_variables() -> None:
    made = CommandEnvironment({"AWS_SECRET_ACCESS_KEY": "s3cret"}, "/", 0o022)
    assert "s3cret" not in repr(RunInEnvironment(made, lambda parts: iter(())))


def test_the_session_inherits_no_credentials() -> None:
    inherited = {
        "HOME": "/home/me",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "KAFKEEP_S3_SSE_CUSTOMER_KEY": "s3cret",
        "https_proxy": "http://me:s3cret@proxy",
        "KAFKEEP_FAILPOINT": "object.before:exit",
    }
    kept = _server_environment(inherited)
    assert kept["HOME"] == "/home/me"
    assert set(kept) & set(inherited) == {"HOME"}
    assert "s3cret" not in str(kept)
