"""Metrics for Prometheus: Connect's and kafkeep's own."""
