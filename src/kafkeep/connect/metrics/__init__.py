"""What the service tells Prometheus: Connect's names and its own."""
