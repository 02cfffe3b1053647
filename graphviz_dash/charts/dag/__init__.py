"""The drawing of a captured graph: layout, edges, colours, cards."""
