"""A Kafka-Connect-compatible service whose connectors run as backups and restores."""
