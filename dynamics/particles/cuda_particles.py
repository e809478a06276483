"""Particles on a CUDA device: what kernels take, and their launches. Only what runs on
CUDA imports this module, which needs the package numba-cuda."""

from typing import Any

import numpy as np
from numba import cuda
from numba.core.errors import NumbaError

from dynamics.errors import SettingsError
from dynamics.forces import bare_forces
from dynamics.kernels.cuda_launching import BlockLauncher, LaunchSizes, shared_limit
from dynamics.particles.cuda_integrator import (
    MAX_THREADS,
    ParticlePlan,
    block_threads,
    law_tables,
    pair_field_kernel,
    pair_sum_kernel,
    particle_mover,
)
from dynamics.particles.integrator import TRACK_ROWS, IntegratorParameters
from dynamics.particles.pair_list import PairList
from dynamics.settings import ParticleSettings

MULTIPROCESSORS = 132
"""Blocks from which each multiprocessor of an H100 has one."""
AIMED_SHARED_BYTES = 64 * 1024
"""Shared memory of a block with which a multiprocessor runs three blocks."""
RESIDENT_THREADS = MULTIPROCESSORS * 2048
"""Threads that it runs at a time. So many pair sums are computed together where they
are in the memory of the device."""


def reason_against_device(settings: ParticleSettings) -> str:
    """Why a CUDA device cannot compute a run; empty if it can."""
    if settings.uses_mesh:
        return "fast sums are computed on a CPU, and --method direct on both"
    plan = particle_plan(settings, pairs=0, in_shared=False)
    if plan.shared_bytes > shared_limit():
        return "the particles do not fit into the shared memory of a block of threads"
    return ""


def particle_plan(
    settings: ParticleSettings, pairs: int, in_shared: bool
) -> ParticlePlan:
    """How blocks compute runs with a number of pair sums."""
    forces = settings.forces
    by_magnitude = [
        force for force in forces if settings.balance_of(force) == "magnitude"
    ]
    weighed = {name for force in by_magnitude for name in (force.name, force.against)}
    return ParticlePlan(
        n=settings.n,
        dim=settings.dim,
        pairs=pairs,
        forces=bare_forces(forces),
        weighed=tuple(force.name in weighed for force in forces),
        twice=settings.diagonal == "twice",
        threads=block_threads(pairs) if in_shared else MAX_THREADS,
        in_shared=in_shared,
    )


def runs_together(pairs: int) -> int:
    """Number of runs whose pair sums are in the memory of the device at a time."""
    return max(1, RESIDENT_THREADS // max(pairs, 1))


def device_memory() -> int:
    """Memory of the device in bytes."""
    return int(cuda.current_context().get_memory_info()[1])


def working_bytes(settings: ParticleSettings, pairs: int, runs: int, steps: int) -> int:
    """Estimated memory on the device for an ensemble of `runs`, with noise for `steps`
    steps."""
    plan = particle_plan(settings, pairs, in_shared=False)
    together = min(runs, runs_together(pairs))
    of_run = plan.n * plan.dim * (2 + steps) + TRACK_ROWS
    numbers = runs * of_run + together * pairs * plan.numbers_of_pair
    of_law = len(law_tables(plan)) + 4 * len(plan.forces)
    return 8 * (numbers + of_law) + 4 * (plan.n**2 + 4 * pairs)


class DeviceParticles:
    """Ensembles of particles of one law on a CUDA device.

    plans: those of blocks with pair sums in shared memory and without, for tests."""

    def __init__(
        self,
        settings: ParticleSettings,
        pairs: PairList,
        parameters: IntegratorParameters,
        plans: tuple[ParticlePlan, ParticlePlan] | None = None,
    ) -> None:
        count = len(pairs.first)
        self.in_shared, self.in_memory = plans or (
            particle_plan(settings, count, in_shared) for in_shared in (True, False)
        )
        sizes = np.diff(pairs.bounds)
        pair_of = np.full((pairs.n, pairs.n), -1)
        pair_of[pairs.first, pairs.second] = np.arange(count)
        pair_of[pairs.second, pairs.first] = np.arange(count)
        tokens = [_integers(pairs.first), _integers(pairs.second)]
        classes = [
            _integers(np.repeat(edges, sizes))
            for edges in (pairs.bounds[:-1], pairs.bounds[1:])
        ]
        self.tokens = tokens
        self.classes = classes
        self.pair_of = _integers(pair_of.reshape(-1))
        self.tables = cuda.to_device(law_tables(self.in_shared))
        p = parameters
        self.numbers = [
            cuda.to_device(np.ascontiguousarray(values))
            for values in (p.constants, p.balances, p.against, p.counts)
        ]
        self.rules = (float(p.step_size), int(p.step_rule), int(p.variance))
        self.launches = LaunchSizes()
        self.block_mover, self.mover = (
            BlockLauncher(particle_mover(plan), plan.threads, plan.shared_bytes)
            for plan in (self.in_shared, self.in_memory)
        )
        self.pair_sums = BlockLauncher(
            pair_sum_kernel(self.in_memory), self.in_memory.threads, 0
        )
        self.pair_fields = BlockLauncher(
            pair_field_kernel(self.in_memory), self.in_memory.threads, 0
        )

    def runs_in_blocks(self, runs: int) -> bool:
        """Whether a block advances a run, rather than blocks for parts of its pair
        sums. The bits do not depend on it."""
        plan = self.in_shared
        is_small = plan.pairs <= plan.threads
        fits = plan.shared_bytes <= min(AIMED_SHARED_BYTES, shared_limit())
        return fits and (is_small or runs >= MULTIPROCESSORS)

    def run(
        self,
        embedding: np.ndarray,
        steps: int,
        track: np.ndarray,
        noise: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions after `steps` steps, and with 0 steps the total force; `track` (row,
        run) is updated in place. noise: (run, step, token, axis) displacements."""
        runs = len(embedding)
        positions = cuda.to_device(np.ascontiguousarray(embedding.reshape(runs, -1)))
        forces = cuda.to_device(np.zeros(positions.shape))
        rows = cuda.to_device(np.ascontiguousarray(track.T))
        displacements = cuda.to_device(
            np.zeros((runs, 1, 1))
            if noise is None
            else np.ascontiguousarray(noise.reshape(runs, steps, -1))
        )
        arrays = (positions, forces, rows, displacements)
        has_noise = int(noise is not None)
        in_blocks = self.runs_in_blocks(runs)
        advance = self._advance_in_blocks if in_blocks else self._advance_in_memory
        try:
            advance(arrays, has_noise, steps)
        except NumbaError as error:
            reason = str(error).strip().splitlines()[0]
            allowed = f"cpu: the forces cannot be compiled for it ({reason})"
            raise SettingsError("device", "cuda", allowed) from None
        track[:] = rows.copy_to_host().T
        shape = embedding.shape
        return positions.copy_to_host().reshape(shape), forces.copy_to_host().reshape(
            shape
        )

    def _move(
        self,
        mover: BlockLauncher,
        runs: int,
        arrays: tuple[Any, ...],
        span: tuple[int, int, int],
        fields: Any,
        magnitudes: Any,
    ) -> None:
        """Start the kernel of `particle_mover`. span: whether there is noise, its first
        step, and the number of steps."""
        mover.launch(
            runs,
            *arrays,
            *span,
            *self.tokens,
            *self.classes,
            self.pair_of,
            self.tables,
            fields,
            magnitudes,
            *self.numbers,
            *self.rules,
        )

    def _advance_in_blocks(
        self, arrays: tuple[Any, ...], has_noise: int, steps: int
    ) -> None:
        """Advance each run in a block of its own. arrays: positions, forces, the rows of
        `track`, and displacements by noise, of all runs."""
        runs = len(arrays[0])
        unused = cuda.to_device(np.zeros((runs, 1)))

        def launch(begin: int, count: int) -> None:
            span = (has_noise, begin, count if steps else 0)
            self._move(self.block_mover, runs, arrays, span, unused, unused)

        self.launches.run(launch, max(1, steps))

    def _advance_in_memory(
        self, arrays: tuple[Any, ...], has_noise: int, steps: int
    ) -> None:
        """Advance some runs at a time, each by many blocks. arrays: as of
        `_advance_in_blocks`."""
        plan = self.in_memory
        count = len(arrays[0])
        together = min(count, runs_together(plan.pairs))
        sums, units, fields, magnitudes = (
            cuda.to_device(np.zeros((together, max(1, plan.pairs * columns))))
            for columns in (
                plan.dim,
                plan.dim,
                len(plan.forces) * plan.dim,
                len(plan.forces),
            )
        )
        parts = max(1, -(-plan.pairs // plan.threads))
        for first in range(0, count, together):
            last = min(first + together, count)
            runs = last - first
            some = tuple(array[first:last] for array in arrays)

            def launch(
                begin: int, count: int, runs: int = runs, some: Any = some
            ) -> None:
                for step in range(begin, begin + count):
                    self.pair_sums.launch(
                        runs * parts, some[0], *self.tokens, sums, units, parts
                    )
                    self.pair_fields.launch(
                        runs * parts,
                        sums,
                        units,
                        *self.classes,
                        self.tables,
                        fields,
                        magnitudes,
                        parts,
                    )
                    span = (has_noise, step, min(1, steps))
                    self._move(self.mover, runs, some, span, fields, magnitudes)

            self.launches.run(launch, max(1, steps))


def _integers(values: np.ndarray) -> Any:
    """Integers as an array on the device, which has at least one number."""
    numbers = np.ascontiguousarray(values, np.int32)
    return cuda.to_device(numbers if numbers.size else np.zeros(1, np.int32))
