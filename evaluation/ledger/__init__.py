"""Check the ledger of memory and start-up: sums, advice and predictions against measurements."""
