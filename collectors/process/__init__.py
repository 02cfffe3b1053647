"""Processes of a collection: requests, subprocesses, lifelines."""
