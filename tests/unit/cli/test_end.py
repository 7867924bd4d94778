"""How the process of a command ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ENDS = """
import atexit, sys
from kafkeep.cli import main as program

class Kept:
    def __del__(self):
        print("freed")

kept = Kept()
kept.itself = kept

def main():
    atexit.register(print, "registered")
    print("printed")
    {end}

program.main = main
program.run()
"""


def run(end: str, stdout: str = "") -> tuple[int, str, str]:
    command = [sys.executable, "-c", ENDS.format(end=end)]
    shell = ["sh", "-c", f'exec "$@" {stdout}', "sh", *command]
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(shell, env=buffered, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("code", [0, 3, 13])
def test_a_command_ends_with_its_code_and_runs_what_is_registered(code: int) -> None:
    assert run(f"sys.exit({code})") == (code, "printed\nregistered\n", "")


def test_output_that_cannot_be_written_at_the_end_is_an_error() -> None:
    code, _, error = run("sys.exit(0)", "> /dev/full")
    assert code == 120
    assert "No space left on device" in error


def test_an_error_of_the_program_itself_is_shown() -> None:
    code, _, error = run("raise RuntimeError('unforeseen')")
    assert code == 1
    assert "unforeseen" in error
