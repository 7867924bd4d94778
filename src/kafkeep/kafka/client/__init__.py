"""The Kafka client: connections, Fetch, Produce and metadata."""
