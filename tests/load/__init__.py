"""Many agents on one peer at once: `python -m tests.load`."""
