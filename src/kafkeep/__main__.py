"""``python -m kafkeep``."""

from kafkeep.cli.main import run

run()
