"""Restrictions on connectors, and masking of secrets."""
