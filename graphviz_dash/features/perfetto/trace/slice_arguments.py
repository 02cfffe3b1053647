"""Arguments of GPU slices: launch shape, and the node, operator and source line."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from graphviz_dash.analysis.arrays import Ints, encode, get_column
from graphviz_dash.analysis.attribution.attribution import attribute_graphs
from graphviz_dash.analysis.replays.replays import METHODS, get_identities, match_replays
from graphviz_dash.analysis.replays.visibility import (
    describe_hidden_work,
    find_enclosing_conditionals,
)
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.features.perfetto.trace.slices import (
    Arg,
    build_column_arg,
    build_count_arg,
    build_number_arg,
    build_text_arg,
)
from graphviz_dash.features.prediction.analysis.work import get_issued_streams
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace

BY_EXTERNAL_ID: Final = "external id"
"""Attribution of eager kernels by the profiler, with confidence 1."""


def build_gpu_args(run: Run, trace: Trace) -> list[Arg]:
    """Build the arguments of every row of ``trace.gpu``, the replay trace of ``run``.

    ``graph`` and ``node`` refer to the captured graph, with ``matched_by`` and
    ``match_confidence``, and a ``note`` if the profiler shows less than ran. ``issued_on_stream``
    is set if a plan used several streams. ``op``, ``module``, ``source``, ``phase`` and
    ``input_dims`` come from the node's capture, or for eager work from the operator around the
    launch, with ``attributed_by`` and ``attribution_confidence``. ``cuda_graph_id`` and
    ``cuda_graph_node_id`` are the trace's ids.
    """
    gpu = trace.gpu
    return [
        *_build_origin_args(run, trace),
        *(_build_shape_arg(name, gpu) for name in ("grid", "block")),
        build_count_arg("shared_bytes", gpu["shared"]),
        build_count_arg("registers", gpu["registers"]),
        build_count_arg("bytes", gpu["bytes"]),
        build_count_arg("correlation", gpu["correlation"]),
        build_count_arg("cuda_graph_id", gpu["graph_id"]),
        build_count_arg("cuda_graph_node_id", gpu["graph_node_id"]),
    ]


class _TextIndex:
    """Unique texts and their indices; None has index -1."""

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}

    def get_index(self, text: str | None) -> int:
        return -1 if text is None else self.indices.setdefault(text, len(self.indices))


_FIELDS: Final = ("op", "module", "source", "phase", "input_dims", "attributed_by")


def _build_origin_args(run: Run, trace: Trace) -> list[Arg]:
    rows = trace.gpu.height
    texts = {name: _TextIndex() for name in _FIELDS}
    codes = {name: np.full(rows, -1, dtype=np.int64) for name in _FIELDS}
    confidence = np.full(rows, np.nan)
    _fill_from_operators(trace, texts, codes, confidence)
    args = _fill_from_nodes(run, trace, texts, codes, confidence)
    text_args = [build_text_arg(name, codes[name], texts[name].indices) for name in _FIELDS]
    return [*text_args, build_number_arg("attribution_confidence", confidence), *args]


def _fill_from_operators(
    trace: Trace,
    texts: dict[str, _TextIndex],
    codes: dict[str, Ints],
    confidence: npt.NDArray[np.float64],
) -> None:
    """Use the operator around the launch, if the profiler has it."""
    ids = get_column(trace.ops, "external_id")
    wanted = get_column(trace.gpu, "external_id")
    # Zero means no id.
    op = link_launches(np.where(wanted > 0, wanted, -1), ids).launch
    attributed = np.flatnonzero(op >= 0)
    if not len(attributed):
        return
    for name, field in (("op", "name"), ("input_dims", "input_dims")):
        codes[name][attributed] = _index_texts(trace.ops[field].gather(op[attributed]), texts[name])
    codes["attributed_by"][attributed] = texts["attributed_by"].get_index(BY_EXTERNAL_ID)
    confidence[attributed] = 1.0


def _index_texts(values: pl.Series, texts: _TextIndex) -> Ints:
    codes, categories = encode(values.cast(pl.Categorical))
    absent = values.is_null().to_numpy()
    table = np.array([texts.get_index(text) for text in categories], dtype=np.int64)
    return np.where(absent, -1, table[codes])


def _fill_from_nodes(
    run: Run,
    trace: Trace,
    texts: dict[str, _TextIndex],
    codes: dict[str, Ints],
    op_confidence: npt.NDArray[np.float64],
) -> list[Arg]:
    """Use captures of matched nodes; return the arguments of the match."""
    rows = trace.gpu.height
    graph = np.full(rows, -1, dtype=np.int64)
    node = np.full(rows, -1, dtype=np.int64)
    method = np.full(rows, -1, dtype=np.int64)
    match_confidence = np.full(rows, np.nan)
    notes = _TextIndex()
    note = np.full(rows, -1, dtype=np.int64)
    by_id = {captured_graph.id: captured_graph for captured_graph in run.graphs}
    names: tuple[str, ...] = ()
    if run.graphs:
        match = match_replays(run.graphs, trace, get_identities(run))
        names = match.graphs
        attributed = attribute_graphs(run.graphs, run.capture_traces)
        method[match.gpu_row] = match.method
        matched = match.node >= 0
        matched_rows = match.gpu_row[matched]
        graph[matched_rows], node[matched_rows] = match.graph[matched], match.node[matched]
        match_confidence[match.gpu_row] = np.where(matched, match.confidence, np.nan)
        for graph_index, graph_id in enumerate(names):
            of_graph = matched_rows[match.graph[matched] == graph_index]
            captured = by_id[graph_id]
            note[of_graph] = notes.get_index(
                describe_hidden_work(find_enclosing_conditionals(captured, by_id))
            )
            origins = attributed[graph_id].origins
            for name in _FIELDS:
                field = "method" if name == "attributed_by" else name
                text_codes = [texts[name].get_index(getattr(origin, field)) for origin in origins]
                codes[name][of_graph] = np.array(text_codes, dtype=np.int64)[node[of_graph]]
            confidence = np.array([o.confidence if o.op else np.nan for o in origins])
            op_confidence[of_graph] = confidence[node[of_graph]]
    return [
        *_build_stream_args(run, node),
        build_text_arg("graph", graph, names),
        build_count_arg("node", pl.Series("node", node)),
        build_text_arg("matched_by", method, METHODS),
        build_number_arg("match_confidence", match_confidence),
        build_text_arg("note", note, notes.indices),
    ]


def _build_stream_args(run: Run, node: Ints) -> list[Arg]:
    """Build the argument of nodes captured on several streams."""
    if run.parallel is None:
        return []
    streams = np.array(get_issued_streams(run.parallel), dtype=np.int64)
    issued = np.where((node >= 0) & (node < len(streams)), node, -1)
    stream = np.where(issued >= 0, streams[issued], -1) if len(streams) else issued
    return [build_count_arg("issued_on_stream", pl.Series("stream", stream))]


def _build_shape_arg(name: str, gpu: pl.DataFrame) -> Arg:
    """Build ``grid`` or ``block`` as "(8, 2, 1)", one text per distinct value."""
    text = pl.format("({}, {}, {})", *(f"{name}_{axis}" for axis in "xyz"))
    return build_column_arg(name, gpu.select(text).to_series())
