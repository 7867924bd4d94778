"""Objects of Confluent's sink that no log names: found by listing, read as records."""
