"""Names of the ranges that collectors add to traces for the analysis."""

STEP = "graphviz_dash.step#"
"""Prefix of an iteration number: one traced iteration, including its final synchronisation. A
recording counts it only if its number is below `window_steps`."""

UNFINISHED_STEP = STEP + "unfinished"
"""A step that the end of the traced window cut. The loader gives it this name."""

CAPTURE = "graphviz_dash.capture#"
"""Prefix of a graph id: the capture of that graph."""

MODULE = "graphviz_dash.module:"
"""Prefix of the dotted path of an nn.Module ("layers.0.attn"), during its forward."""

SOURCE = "graphviz_dash.source:"
"""Prefix of ``file:line`` of the user's code that called into torch."""
