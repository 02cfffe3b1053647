"""The pages, one file each: layout only; what can be computed is computed elsewhere."""
