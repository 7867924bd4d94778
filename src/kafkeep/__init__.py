"""kafkeep keeps Kafka topics in S3-compatible object storage and brings them back."""

import kafkeep.backup
import kafkeep.restore  # noqa: F401
from kafkeep.api import backup, restore

# ``backup`` and ``restore`` are packages too. Python binds a package to its parent once, when it
# first loads it. They are loaded above, before the functions, so these names stay the functions;
# write ``from kafkeep.backup import run`` to reach a module of the package.

__all__ = ["__version__", "backup", "restore"]
__version__ = "0.1.0"
