"""Kafka Connect's converters: bytes of Kafka to columns, and back."""
