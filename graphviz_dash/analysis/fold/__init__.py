"""A captured graph folded into groups that unfold: runs, branches, repeats, modules."""
