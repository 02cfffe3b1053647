"""The on-disk format of a run: its schema, how it is written and how it is read."""
