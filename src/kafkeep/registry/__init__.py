"""Schema registries: the client of Confluent's API, and Apicurio's import."""
