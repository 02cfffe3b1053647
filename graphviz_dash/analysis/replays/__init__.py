"""Which kernel of a replay is which node of the captured graph."""
