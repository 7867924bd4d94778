"""The archives of a worker's connectors: their logs, objects and sizes."""
