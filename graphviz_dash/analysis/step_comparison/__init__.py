"""Where a step spends its time, and where the difference between two runs went."""
