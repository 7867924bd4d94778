"""Partitioners: map each record of a sink to its directory."""
