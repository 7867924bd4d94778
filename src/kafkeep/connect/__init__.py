"""Kafka Connect's place: its REST API, and connectors that run as backups and restores of ours."""
