"""A captured graph on several streams: what its work needs, and what running it so would give."""
