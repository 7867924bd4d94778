"""Connect's single message transforms and predicates, on columns."""
