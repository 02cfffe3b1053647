"""Names of the ranges that collectors put into a trace, and that analysis finds again."""

STEP = "graphviz_dash.step#"
"""Followed by the iteration's number: one traced iteration, its final synchronisation included."""

CAPTURE = "graphviz_dash.capture#"
"""Followed by the graph's id: the capture of that graph."""

MODULE = "graphviz_dash.module:"
"""Followed by the dotted path of an nn.Module ("layers.0.attn"), while its forward runs."""

SOURCE = "graphviz_dash.source:"
"""Followed by ``file:line`` of the user's code that called into torch."""
