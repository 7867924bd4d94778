"""The whole story on real services: produce, back up, look, query, lose, restore, compare."""
