"""Device memory of any set of sizes of a family, the same for all pages and commands."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import interpolate
from graphviz_dash.analysis.memory.pool_simulation import PoolSimulation
from graphviz_dash.features.ladder.analysis.ladder_data import LadderData
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost
from graphviz_dash.model.absence import Missing


class SetMemory:
    """Memory of sets of sizes: the pool of the family by a simulation, and the executables.

    Executables of new sizes are like those of the nearest ones.
    """

    def __init__(self, data: LadderData) -> None:
        self._captured = np.array(data.current_sizes, dtype=np.int64)
        self._executable_bytes = np.array([costs.executable_bytes for costs in data.captured])
        self.simulation: PoolSimulation | None = None
        """None if memory is an extrapolation."""
        self.other_bytes = 0.0
        """Pool of other families, in bytes: part of the simulation and not of the family."""
        if not isinstance(data.pool, Missing):
            self.simulation = data.pool.simulate()
            self.other_bytes = float(data.pool.reserved_bytes - data.pool.growth_bytes)

    def predict(self, sizes: Iterable[int]) -> float | None:
        """Predict the device memory with ``sizes``, in bytes. None without a simulation."""
        sizes = sorted(set(sizes))
        pool_bytes = None if self.simulation is None else self.simulation.predict(sizes)
        if pool_bytes is None:
            return None
        return pool_bytes - self.other_bytes + float(self.estimate_executables(sizes).sum())

    def estimate_executables(self, sizes: Iterable[int]) -> Floats:
        """Estimate the executables of each size, in bytes, shape (sizes,)."""
        order: Ints = np.fromiter(sizes, dtype=np.int64)
        return interpolate(order, self._captured, self._executable_bytes)

    def correct(self, cost: LadderCost, sizes: Iterable[int]) -> LadderCost:
        """Replace the extrapolated memory of a set by the predicted one, if there is one."""
        memory_bytes = self.predict(sizes)
        return cost if memory_bytes is None else replace(cost, memory_bytes=memory_bytes)
