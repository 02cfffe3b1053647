"""Traces on s3:// and gs://, served on this machine by the same protocols.

They need `pip install 'graphviz-dash[clouds]'`, which is large; without it the tests are skipped.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest

from graphviz_dash.cli.loading import resolve_experiment
from graphviz_dash.errors import InputError
from graphviz_dash.features.ranks.fleet_import import collect_fleet
from graphviz_dash.importers.locations import Location, find_locations
from graphviz_dash.importers.many import SkippedFiles, import_batch
from graphviz_dash.importers.tasks import create_executor
from graphviz_dash.ingest.load import load_experiment
from tests.processes import bind, find_free_port

pytest.importorskip("moto")
pytest.importorskip("s3fs")
pytest.importorskip("gcsfs")
pytest.importorskip("gcp_storage_emulator")

SAMPLES = Path(__file__).parents[3] / "sample_traces"
TRACES = {
    "job/rank0.json.gz": SAMPLES / "tp-transformer/graph-rank0/traces/replay.json.gz",
    "job/rank1.json.gz": SAMPLES / "tp-transformer/graph-rank1/traces/replay.json.gz",
}
GCS = (
    "from gcp_storage_emulator.server import create_server;"
    "create_server('127.0.0.1', {port}, in_memory=True, default_bucket='bucket').run()"
)


@pytest.fixture(scope="module", params=["s3", "gs"])
def cloud(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a bucket with the traces of two ranks, an experiment and unrelated
    files.
    """
    port = find_free_port()
    address = f"http://127.0.0.1:{port}"
    protocol = str(request.param)
    if protocol == "s3":
        command = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    else:
        command = ["-c", GCS.format(port=port)]
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "STORAGE_EMULATOR_HOST": address,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # asks Google which kind of bucket it is
    }
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(bind([sys.executable, *command]), **quiet)  # type: ignore[call-overload]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings.items():
            patched.setenv(name, value)
        try:
            _wait(port)
            _fill(fsspec.filesystem(protocol, skip_instance_cache=True))
            yield f"{protocol}://bucket"
        finally:
            server.kill()
            server.wait()


def _wait(port: int) -> None:
    until = time.monotonic() + 100
    while time.monotonic() < until:
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1)):
            return
        time.sleep(0.1)
    raise TimeoutError("the server did not start")


def _fill(system: Any) -> None:
    if not system.exists("bucket"):
        system.mkdir("bucket")
    for name, file in TRACES.items():
        system.pipe_file(f"bucket/{name}", file.read_bytes())
    system.pipe_file("bucket/job/notes.txt", b"no trace")
    system.pipe_file("bucket/job/cut.json.gz", TRACES["job/rank0.json.gz"].read_bytes()[:40])
    for run in ("eager", "graph"):
        folder = SAMPLES / "mlp-train" / run
        for file in folder.rglob("*"):
            if file.is_file():
                within = file.relative_to(folder).as_posix()
                system.pipe_file(f"bucket/mlp-train/{run}/{within}", file.read_bytes())


def test_a_fleet(cloud: str) -> None:
    found = collect_fleet(find_locations([f"{cloud}/job"]), partial(create_executor, None, 2))
    assert found.tables["ranks"]["name"].to_list() == ["rank0", "rank1"]
    (unread,) = found.failed
    assert unread.source == f"{cloud}/job/cut.json.gz"
    assert "gzip" in unread.reason


def test_an_import(cloud: str, tmp_path: Path) -> None:
    made = list(
        import_batch(
            find_locations([f"{cloud}/job"]), tmp_path / "out", partial(create_executor, None, 2)
        )
    )
    told = {one.files[0]: one.reason for one in made if isinstance(one, SkippedFiles)}
    assert f"{cloud}/job/notes.txt" in told
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_an_experiment_to_compare(cloud: str) -> None:
    with resolve_experiment(f"{cloud}/mlp-train", None, 1) as folder:
        assert folder.name == "mlp-train"
        assert sorted(run.name for run in load_experiment(folder).runs) == ["eager", "graph"]


def test_one_file_by_its_address(cloud: str) -> None:
    address = f"{cloud}/job/rank1.json.gz"
    assert find_locations([address]) == [Location(address)]


def test_a_bucket_that_is_not_there(cloud: str) -> None:
    with pytest.raises(InputError, match=r"://nowhere/job: .*(bucket|no such)"):
        find_locations([f"{cloud.partition('://')[0]}://nowhere/job"])


def test_nobody_who_says_who_he_is(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if cloud.startswith("gs"):
        pytest.skip("the emulator asks nobody")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        if name != "AWS_ENDPOINT_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(InputError, match=r"locate credentials.*AWS_ACCESS_KEY_ID"):
        find_locations([f"{cloud}/job"])
    fsspec.filesystem("s3").clear_instance_cache()
