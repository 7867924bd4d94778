"""Everything that talks to Kafka, and Kafka's own record batches."""
