"""Measure launch costs of synthetic graphs without a profiler."""
