"""The pages, one module each, without computation."""
