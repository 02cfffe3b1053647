"""Ranks of a distributed job and fleets of traces."""
