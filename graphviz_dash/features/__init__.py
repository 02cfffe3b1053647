"""Products of the dashboard: one folder with analysis, wording, charts and page for each."""
