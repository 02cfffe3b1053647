"""Analysis of several ranks: clocks, shared steps, waits in collectives, fleets of traces."""
