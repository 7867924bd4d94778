"""The web console: pages under ``/ui/`` over the same service object as the REST API."""
