"""Settings that hold for every test."""

from hypothesis import settings

# A slow machine is no failure: what is slow is measured in benchmarks/, not here.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
