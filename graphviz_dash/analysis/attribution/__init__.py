"""Which operator, module and line launched each node of a captured graph."""
