"""Files written by `graphviz-dash export`, one module per kind."""
