"""Topics in Kafka beside those of the archives, and which of their offsets are archived."""
