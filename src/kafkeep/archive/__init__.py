"""The archive format: entries, commits, the log, checkpoints and views.

Its only I/O is through the ``ObjectStore`` protocol.
"""
