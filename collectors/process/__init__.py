"""The processes of a collection: requests, subprocesses, lifelines."""
