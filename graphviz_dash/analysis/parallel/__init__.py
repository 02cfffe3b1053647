"""Execution of a captured graph on several streams: dependencies and predicted times."""
