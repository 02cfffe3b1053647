"""Folder that is put on PYTHONPATH of a recorded program. Python imports its sitecustomize."""
