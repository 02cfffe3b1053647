"""Prediction of graphed and multi-stream step times."""
