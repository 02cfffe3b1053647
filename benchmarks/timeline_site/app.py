"""The site that benchmarks/timeline.py drives: two pages, one of them a timeline of two runs."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import streamlit as st
from timeline_traces import experiment

from graphviz_dash.ui import store
from graphviz_dash.ui.components.timeline import routes

# What is measured is the timeline, not the reading of traces: these are made in memory.
made = experiment(int(os.environ["TIMELINE_SLICES"]))
store.load_experiment = lambda _: made
store.STORE.experiment(store.STORE.register(made.path))

app = st.App("page.py", routes=routes())
