"""Prediction of steps on several streams."""
