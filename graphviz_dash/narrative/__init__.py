"""Analysis results in words: the sentences that pages, terminal and reports share."""
