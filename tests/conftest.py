"""Settings that hold for every test."""

import os

from hypothesis import settings

# A slow machine is no failure: what is slow is measured in benchmarks/, not here.
# The same examples each time: a change is judged by what it changed, not by luck.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")

# Tests read traces anew, and leave nothing in the cache of whoever runs them.
os.environ["GRAPHVIZ_DASH_CACHE"] = "off"
