"""What `graphviz-dash export` writes: a module for each kind of file."""
