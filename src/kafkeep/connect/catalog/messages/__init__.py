"""Records of a topic for people: read from Kafka or from an archive, a page at a time."""
