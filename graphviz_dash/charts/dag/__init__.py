"""Drawing of a captured graph: layout, edges, colours, cards."""
