"""Run bundles out of what people have: foreign files told apart, joined and read."""
