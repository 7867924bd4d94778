"""Kafka Connect's single message transforms, applied to columns."""
