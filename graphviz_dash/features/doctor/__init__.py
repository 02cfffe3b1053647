"""Diagnosis of captures that fail and replays that are wrong."""
