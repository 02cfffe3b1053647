"""The passes of a collection; each module's ``run`` does one of them in a process of its own."""
