"""Ledger of memory and start-up: parts, graphs, possible savings, and predictions."""
