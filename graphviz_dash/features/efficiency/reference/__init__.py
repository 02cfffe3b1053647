"""Limits measured on GPUs of several models, by graphviz-dash bench limits."""
