"""Kafka's client properties, TLS stores and tokens."""
