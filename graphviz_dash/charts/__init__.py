"""Plotly figures and view models of analysis results."""
