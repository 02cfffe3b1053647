"""Record the ledger of a process: its memory and wall time until the first useful replay."""
