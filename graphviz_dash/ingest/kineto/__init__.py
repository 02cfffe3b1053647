"""Kineto JSON in, trace tables out."""
