"""The nodes of a captured graph with what replays and the capture say of them."""
