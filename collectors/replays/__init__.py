"""Check replays: the first wrong operator, the node of a crash or hang, and freed memory."""
