"""kafkeep's own API under ``/kafkeep/v1``: what the web console shows and does, for scripts."""
