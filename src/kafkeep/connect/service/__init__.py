"""The service: herder, leader election, journal and the supervisor of connectors."""
