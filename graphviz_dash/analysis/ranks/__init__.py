"""Several ranks: clocks, shared steps, waits at collectives, fleets of traces."""
