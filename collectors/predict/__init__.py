"""Recordings that predictions are calibrated with and scored against: many workloads in minutes."""
