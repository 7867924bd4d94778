"""Kafka's bytes to columns and back, as Connect's converters do it."""
