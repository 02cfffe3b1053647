"""Language check: plain English in code, documentation and visible text."""
