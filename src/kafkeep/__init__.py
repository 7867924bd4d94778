"""kafkeep keeps Kafka topics in S3-compatible object storage and brings them back."""

__version__ = "0.1.0"
