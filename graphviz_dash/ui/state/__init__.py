"""State of the server: loaded runs, results, jobs, uploads."""
