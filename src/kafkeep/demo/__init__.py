"""The demo on real services: produce, back up, inspect, query, lose, restore, compare."""
