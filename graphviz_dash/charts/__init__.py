"""Results in, plotly figures and view models out."""
