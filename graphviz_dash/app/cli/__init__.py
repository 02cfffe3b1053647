"""Command line: the table of commands and those that belong to no single feature."""
