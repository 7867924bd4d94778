"""Looking at objects of Confluent's sink that no log names."""
