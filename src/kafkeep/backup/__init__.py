"""From Kafka into the archive: look, plan, intend, fetch, write, settle, commit."""
