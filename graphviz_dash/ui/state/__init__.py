"""What the server holds: loaded runs, results, jobs, uploads."""
