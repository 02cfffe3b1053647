"""SVG charts for reports."""
