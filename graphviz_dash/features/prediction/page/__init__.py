"""Prediction panel of the dashboard."""
