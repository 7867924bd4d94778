"""Long background work of the service: restores, proofs and what else outlives a request.

A *run* is stored in the service's state, so it outlives the browser that asked for it and the
worker that does it. The worker that leads executes runs (``board.py``, ``attempt.py``). Each kind
of work is a ``RunKind`` (``kind.py`` describes how to add one).
"""
