"""``python -m kafkeep``."""

from kafkeep.cli.main import main

main()
