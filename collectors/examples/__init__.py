"""Example programs for recording, modelled on real ones."""
