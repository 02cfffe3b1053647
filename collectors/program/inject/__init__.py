"""The folder that is put on PYTHONPATH of a program that we run; Python imports sitecustomize."""
