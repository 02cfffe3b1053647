"""Account of a compiled program: graphs, breaks, skips and the gain from each fix."""
