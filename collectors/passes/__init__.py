"""Passes of a collection; each module's ``run`` executes one in a separate process."""
