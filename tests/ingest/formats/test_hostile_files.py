from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked import ROOT, get_fork_server
from tests.ingest.hostile import hostile_files

READ = """
import resource, sys
from pathlib import Path
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.registry import read_foreign
resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_foreign(Path(sys.argv[1]), Path(sys.argv[2]))
    print("read")
except InputError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""".replace("CPU_SECONDS", "30")
_MOST_MEMORY_KIB = 400 << 10


@pytest.fixture(scope="module")
def hostile() -> dict[str, bytes]:
    return hostile_files()


NAMES = [
    *("hash-of-shared-tuples.pickle", "set-of-shared-tuples.pickle", "nested-tuples.pickle"),
    *("nested-tuples-as-value.pickle", "one-list-often.pickle", "lists.pickle.gz", "spaces.dot"),
    *("launches.dot", "plain-launches.dot", "digits.dot", "digits-of-a-flag.dot"),
    *("digits-of-a-node.dot", "empty-lists.json.gz", "empty-events.json.gz"),
    "generated-columns.sqlite",
]


def test_all_are_tried(hostile: dict[str, bytes]) -> None:
    assert sorted(NAMES) == sorted(hostile)


@pytest.mark.parametrize("name", NAMES)
def test_one_line_within_bounds(hostile: dict[str, bytes], tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(hostile[name])
    assert file.stat().st_size < 1_200_000

    server = get_fork_server("graphviz_dash.ingest.formats.registry")
    environment = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": ""}
    ended = server.run(READ, file, tmp_path, cwd=ROOT, env=environment)
    assert ended.stderr == ""
    assert ended.returncode == 0
    answer, memory_kib = ended.stdout.splitlines()
    assert int(memory_kib) < _MOST_MEMORY_KIB
    assert answer == "read" or str(file) in answer
