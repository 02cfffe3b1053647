"""Results that the Graph page keeps between visits."""
