"""Workloads that come with the collectors."""
