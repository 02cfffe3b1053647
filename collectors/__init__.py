"""Collectors: run a workload on a GPU and write what was measured as run bundles."""
