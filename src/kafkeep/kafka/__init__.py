"""The Kafka client, cluster administration, and record batches."""
