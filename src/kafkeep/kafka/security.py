"""The client's properties, under Java's names, as the configuration of the client in use."""

from __future__ import annotations

from typing import Any

from kafkeep.config.kafka import KafkaOptions


def client_config(options: KafkaOptions) -> dict[str, Any]:
    """Return kafka-python's configuration for these options."""
    return {"request_timeout_ms": 30_000, "client_id": options.client_id}
