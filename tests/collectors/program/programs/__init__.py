"""Programs of many kinds, each of which must be the same whether it is recorded or not."""

from __future__ import annotations

from typing import Final

from tests.collectors.program.programs.cases import Case
from tests.collectors.program.programs.ends import ENDS, EXECS, SIGNALS
from tests.collectors.program.programs.forks import FORKS
from tests.collectors.program.programs.insides import INSIDES
from tests.collectors.program.programs.starts import STARTS
from tests.collectors.program.programs.threads import THREADS
from tests.collectors.program.programs.tight import TIGHT
from tests.collectors.program.programs.workers import MULTIPROCESSING

CASES: Final[tuple[Case, ...]] = (
    *ENDS,
    *EXECS,
    *FORKS,
    *MULTIPROCESSING,
    *THREADS,
    *SIGNALS,
    *STARTS,
    *TIGHT,
    *INSIDES,
)
