"""kafkeep keeps Kafka topics in S3-compatible object storage and brings them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkeep import api

if TYPE_CHECKING:
    from kafkeep.api import backup, restore

__all__ = ["__version__", "backup", "restore"]
__version__ = "0.1.0"

api.make_callable("kafkeep.backup", api.backup)
api.make_callable("kafkeep.restore", api.restore)
