from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.app.compare.documents.comparison import build_comparison_document
from graphviz_dash.bundle.read import read_bundle, read_node_names
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import FileRole
from scripts.pack_samples import pack_bundle
from tests.samples import SAMPLES


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A copy of a sample that is not packed."""
    shutil.copytree(SAMPLES / "fork-join", tmp_path / "fork-join")
    bundle = tmp_path / "fork-join" / "graph"
    _unpack_graphs(bundle)
    return bundle


def _unpack_graphs(bundle: Path) -> None:
    run = read_bundle(bundle)
    manifest = msgspec.json.decode((bundle / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["role"] != FileRole.GRAPH.value:
            continue
        (bundle / entry["path"]).unlink()
        content = msgspec.json.encode(run.graphs[0])
        entry["path"] = entry["path"].removesuffix(".gz")
        (bundle / entry["path"]).write_bytes(content)
        entry |= {"bytes": len(content), "sha256": _digest(content)}
    (bundle / "manifest.json").write_bytes(msgspec.json.encode(manifest))


def _digest(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()


def _compare(folder: Path) -> object:
    experiment = load_experiment(folder)
    comparison = compare_runs(experiment)
    kernels = build_kernel_table(experiment, comparison.baseline)
    return msgspec.to_builtins(build_comparison_document(comparison, kernels, ()))


def test_a_packed_bundle_is_the_same_run(bundle: Path) -> None:
    before, names = read_bundle(bundle), read_node_names(bundle, ["graph-0"])
    compared = _compare(bundle.parent)
    pack_bundle(bundle)
    assert (bundle / "graphs/graph-0.json.gz").is_file()
    assert not (bundle / "graphs/graph-0.json").exists()
    after = read_bundle(bundle)
    assert after.graphs == before.graphs
    assert read_node_names(bundle, ["graph-0"]) == names
    assert _compare(bundle.parent) == compared
    written = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    pack_bundle(bundle)
    assert {path: path.read_bytes() for path in written} == written


def test_a_damaged_packed_graph_is_refused(bundle: Path) -> None:
    pack_bundle(bundle)
    file = bundle / "graphs/graph-0.json.gz"
    content = file.read_bytes()[:-9]
    file.write_bytes(content)
    manifest = msgspec.json.decode((bundle / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["path"] == "graphs/graph-0.json.gz":
            entry |= {"bytes": len(content), "sha256": _digest(content)}
    (bundle / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(InputError, match="gzip"):
        read_bundle(bundle)


def test_a_checkout_leaves_room_for_programs() -> None:
    """28 MiB is the limit of all files."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=SAMPLES.parent, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a checkout of git")
    files = [SAMPLES.parent / name for name in listing.stdout.split("\0")[:-1]]
    assert sum(file.stat().st_size for file in files if file.is_file()) <= 28 << 20
