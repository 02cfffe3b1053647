"""Products of the dashboard, one folder each: analysis, wording, chart, document, command and page."""
