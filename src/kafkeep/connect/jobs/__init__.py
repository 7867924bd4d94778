"""The jobs of connectors: a backup for a sink, a restore for a source, and compacted pairs."""
