"""The particle system: N particles under the pair forces of CA, normalised after every
step (CA section 6).

    x <- normalise(x + step_size F(x))
    F = g_a attraction + w_r g_r repulsion + f_a (like + w_a unlike alignment)

The weights w_r and w_a balance the unlike fields against the like fields, and
`normalise` restores zero mean and unit standard deviation. There is no momentum. A
configuration of zero spread (N = 1, or all particles at one point) cannot be scaled and
stays at the origin.

A run whose force or position exceeds 1e38 has diverged, and keeps its last state before
it diverged."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import get_num_threads

from dynamics import randomness
from dynamics.initial_conditions import load_initial_positions
from dynamics.kernels.compiling import numba_threads
from dynamics.kernels.simd import LANES_64
from dynamics.particles import fast_forces, pair_forces
from dynamics.particles.integrator import (
    FORCE_NORM,
    LAST_STEP,
    MOVE_NORM,
    TRACK_ROWS,
    IntegratorParameters,
    advance_blocks,
    apply_fields,
    normalise_blocks,
)
from dynamics.particles.pair_forces import ATTRACTION, FIELD_COUNT
from dynamics.particles.pair_list import PairList, group_pairs
from dynamics.settings import (
    PARTICLE_CHOICES,
    ParticleSettings,
    SettingsError,
)
from dynamics.system import DEFAULT_CLOCK, SYSTEM_KINDS, resolve_device
from dynamics.tasks import all_pairs


@dataclasses.dataclass(frozen=True)
class ParticleState:
    """An ensemble of particle runs after `step` steps. The arrays are never changed in
    place."""

    step: int
    embedding: np.ndarray
    """(run, token, axis) Positions."""
    gradient_norm: np.ndarray
    """(run,) Norm of the balanced force before the last step."""
    update_norm: np.ndarray
    """(run,) Norm of the displacement in the last step, after normalisation."""
    last_step: np.ndarray
    """(run,) `step`, or for a run that has diverged the last step before it
    diverged."""


class ParticleSystem:
    """The particles of CA section 6 as a `dynamics.System`: an ensemble of runs that
    advance together.

    Parameters
    ----------
    settings : ParticleSettings
        Constants of the forces, integrator and initial positions.
    device : {"auto", "cpu"}, optional
        Particles always run on the CPU.
    pairs : array_like of int, optional
        Pairs of tokens, (pair, 2), whose sums act on each other, such as the training
        pairs of a network. By default all pairs i <= j.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import ParticleSettings
    >>> system = ParticleSystem(ParticleSettings(n=5))
    >>> state = system.advance(system.initial(np.arange(3)), 10)
    >>> state.embedding.shape  # run, token, axis
    (3, 5, 2)
    """

    kind = SYSTEM_KINDS["particles"]
    clock = DEFAULT_CLOCK
    backends = ()
    backend_name = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.force is not ParticleSystem.force and (
            cls.advance is ParticleSystem.advance
        ):
            raise TypeError(
                f"{cls.__name__}.force: `advance` does not call it; override `advance`"
                " too"
            )

    def __init__(
        self,
        settings: ParticleSettings,
        device: str = "auto",
        pairs: np.ndarray | None = None,
    ) -> None:
        self.settings = settings
        self.device = device if device == "cpu" else resolve_device(device, self.kind)
        self.numerics_version = self.kind.version(settings)
        self.ensemble_width = 0
        self.variables = {
            "embedding": ("token", "axis"),
            "gradient_norm": ("layer",),
            "update_norm": ("layer",),
        }
        self._given_pairs = pairs
        self._axes = tuple(range(settings.dim))
        self._parameters = IntegratorParameters(
            fa=settings.fa,
            ga=settings.ga,
            gr=settings.gr,
            step_size=settings.step_size,
            **{
                field: PARTICLE_CHOICES[field].index(getattr(settings, field))
                for field in IntegratorParameters._fields
                if field in PARTICLE_CHOICES
            },
        )

    @functools.cached_property
    def pairs(self) -> PairList:
        """The pairs whose sums act on each other."""
        pairs = (
            all_pairs(self.settings.n)
            if self._given_pairs is None
            else np.asarray(self._given_pairs)
        )
        if self.settings.diagonal == "none":
            pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        return group_pairs(
            self.settings.n, pairs, twice=self.settings.diagonal == "twice"
        )

    def working_bytes(self, runs: int) -> int:
        """Estimated memory in bytes that `advance` needs for an ensemble of `runs`."""
        s = self.settings
        if s.uses_mesh:
            return (
                fast_forces.working_bytes(s.n, s.dim, s.accuracy)
                + 8 * 32 * runs * s.n * s.dim
            )
        per_block = s.n * (s.n + 1) // 2 * (6 * s.dim + 4) * LANES_64
        return 8 * (
            per_block * min(get_num_threads(), -(-runs // LANES_64))
            + 8 * runs * s.n * s.dim
        )

    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions in `variables`."""
        return {
            "token": np.arange(self.settings.n),
            "axis": np.arange(self.settings.dim),
            "layer": np.array(["embedding"]),
        }

    def initial(self, seeds: np.ndarray) -> ParticleState:
        """The state at step 0: normalised initial positions, one run per seed, with the
        norm of the force there."""
        s = self.settings
        if s.start == "random":
            return self.state_from_positions(
                randomness.normal_samples(seeds, "particles/start", (s.n, s.dim))
            )
        return self.state_from_positions(load_initial_positions(s, seeds))

    def state_from_positions(self, positions: np.ndarray) -> ParticleState:
        """The state at step 0 of runs with initial positions (run, token, axis), which
        are normalised first.

        Raises SettingsError.
        """
        x = self.normalise(positions)
        norm = self.force(x)[1]
        if not (norm < 1e38).all():
            raise SettingsError(
                "start",
                "positions with a force beyond 1e38",
                "positions that do not nearly coincide",
            )
        zeros = np.zeros(len(x))
        return ParticleState(0, x, norm, zeros, zeros.astype(np.int64))

    def normalise(self, positions: np.ndarray) -> np.ndarray:
        """Positions (run, token, axis) normalised as after every step: zero mean and,
        by default, unit variance."""
        runs, n, dim = positions.shape
        blocks = pair_forces.to_blocks(np.asarray(positions, np.float64))
        normalise_blocks(blocks, n, self._parameters.variance, self._axes)
        return pair_forces.from_blocks(blocks, runs, n, dim)

    def force(self, embedding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balanced force on every particle of an embedding (run, token, axis), and
        its norm, (run,).

        `advance` does not call it: it computes the force inside compiled kernels. A
        subclass with another force has to override `advance` too, or it is refused."""
        runs, n, dim = embedding.shape
        track = np.zeros((TRACK_ROWS, runs))
        total = self._run_kernel(embedding, 0, track)[1]
        return total.reshape(runs, n, dim), track[FORCE_NORM]

    def _run_kernel(
        self, embedding: np.ndarray, steps: int, track: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions after `steps` steps and the last total force; `track` (row, run) is
        updated in place."""
        runs, n, dim = embedding.shape
        blocks = pair_forces.to_blocks(embedding)
        lanes = np.zeros((TRACK_ROWS, len(blocks) * LANES_64))
        lanes[:, :runs] = track
        lanes = np.ascontiguousarray(
            lanes.reshape(TRACK_ROWS, -1, LANES_64).swapaxes(0, 1)
        )
        if self.settings.uses_mesh:
            total = self._advance_by_mesh(blocks, runs, steps, lanes)
        else:
            across, threads = pair_forces.summation_plan(runs, self.pairs)
            with numba_threads(threads):
                total = advance_blocks(
                    blocks,
                    runs,
                    across,
                    steps,
                    lanes,
                    self.pairs,
                    self._parameters,
                    self._axes,
                )
        track[:] = lanes.swapaxes(0, 1).reshape(TRACK_ROWS, -1)[:, :runs]
        return pair_forces.from_blocks(blocks, runs, n, dim), pair_forces.from_blocks(
            total, runs, n, dim
        )

    def _advance_by_mesh(
        self, blocks: np.ndarray, runs: int, steps: int, track: np.ndarray
    ) -> np.ndarray:
        """The same as `advance_blocks`, with fast sums."""
        s = self.settings
        for _ in range(max(steps, 1)):
            embedding = pair_forces.from_blocks(blocks, runs, s.n, s.dim)
            fields = [
                fast_forces.fast_fields(x, self.pairs, s.accuracy) for x in embedding
            ]
            force = pair_forces.to_blocks(
                np.stack([field.force.reshape(-1, s.dim) for field in fields])
            )
            magnitude = pair_forces.to_blocks(
                np.stack([field.magnitude[:, None] for field in fields])
            )
            force = force.reshape(len(blocks), FIELD_COUNT, -1)
            magnitude = magnitude.reshape(len(blocks), FIELD_COUNT, -1)
            apply_fields(
                blocks,
                force,
                magnitude,
                track,
                steps > 0,
                self.pairs,
                self._parameters,
                self._axes,
            )
        return np.ascontiguousarray(force[:, ATTRACTION])

    def advance(self, state: ParticleState, steps: int) -> ParticleState:
        """The state `steps` steps later. A run depends only on its own state, bit for
        bit."""
        if steps == 0:
            return state
        running = state.last_step == state.step
        track = np.array(
            [running, state.last_step, state.gradient_norm, state.update_norm],
            dtype=np.float64,
        )
        embedding, _ = self._run_kernel(state.embedding, steps, track)
        last_step = track[LAST_STEP].astype(np.int64)
        return ParticleState(
            state.step + steps,
            embedding,
            track[FORCE_NORM],
            track[MOVE_NORM],
            last_step,
        )

    def observe(self, state: ParticleState) -> dict[str, np.ndarray]:
        """One frame: an array (run, ...) for each variable in `variables`."""
        return {
            "embedding": state.embedding,
            "gradient_norm": state.gradient_norm.astype(np.float32)[:, None],
            "update_norm": state.update_norm.astype(np.float32)[:, None],
        }

    def checkpoint(self, state: ParticleState) -> dict[str, np.ndarray]:
        """The exact restart state for `restore`: `step`, and arrays with a leading run
        axis."""
        return {
            field.name: np.asarray(getattr(state, field.name))
            for field in dataclasses.fields(state)
        }

    def restore(self, arrays: Mapping[str, Any]) -> ParticleState:
        """The state from the arrays of `checkpoint`, for all of its runs or a subset of
        them."""
        return ParticleState(**{**arrays, "step": int(arrays["step"])})
