"""Charts as SVG, for reports."""
