"""From the archive into Kafka: plan, check, prepare, read, send."""
