"""Folding of a captured graph into expandable groups: runs, branches, repeats, modules."""
