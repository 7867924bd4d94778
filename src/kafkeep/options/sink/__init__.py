"""The options of a sink, under the names that Kafka Connect gives them."""
