"""Palette: jump to an experiment, run, page, node or kernel, and copy links."""
