"""Kafka Connect's REST API over HTTP."""
