"""Objects in a bucket without a kafkeep log, presented as the view of a log."""
