"""Segment objects: record batches exactly as Kafka stores them."""
