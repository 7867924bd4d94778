"""From the archive into Kafka: plan, preflight, prepare, read, send, settle."""
