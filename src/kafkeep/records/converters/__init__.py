"""Kafka Connect's converters: decode Kafka's bytes into columns, and encode them again."""
