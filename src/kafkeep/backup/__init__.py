"""From Kafka into the archive: snapshot, plan, intent, fetch, write, reconcile, commit."""
