"""Ledger of a process: parts of its memory and start-up time, graphs, savings, predictions."""
