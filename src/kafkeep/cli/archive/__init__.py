"""The verbs that read an archive and change nothing."""
