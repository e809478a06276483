"""The particle system: N particles under the pair forces of CA, normalised after every
step (CA section 6).

    x <- normalise(x + step_size F(x) + sqrt(2 temperature step_size) noise)
    F = sum over the forces of the law of weight constant field

The law is that of CA, or another one (`dynamics.forces`). The weights balance the unlike
fields against the like fields, and `normalise` restores zero mean and unit standard
deviation. The noise is standard normal, independent for every coordinate and step; its
temperature is 0 in CA. There is no momentum. A configuration of zero spread (N = 1, or
all particles at one point) cannot be scaled and stays at the origin.

A run whose force or position exceeds 1e38 has diverged, and keeps its last state before
it diverged."""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import get_num_threads

from dynamics import randomness
from dynamics.forces import VARIABLES, Force
from dynamics.initial_conditions import load_initial_positions
from dynamics.kernels.compiling import numba_threads
from dynamics.kernels.simd import LANES_64
from dynamics.particles import fast_forces, pair_forces
from dynamics.particles.integrator import (
    FORCE_NORM,
    LAST_STEP,
    MOVE_NORM,
    NOT_DIVERGED,
    TRACK_ROWS,
    IntegratorParameters,
    advance_kernel,
    apply_fields,
    field_weights,
    integrator_parameters,
    normalise_blocks,
)
from dynamics.particles.pair_list import PairList, group_pairs
from dynamics.settings import RANDOM, ParticleSettings, SettingsError
from dynamics.strengths import evaluate
from dynamics.system import DEFAULT_CLOCK, SYSTEM_KINDS, resolve_device
from dynamics.tasks import all_pairs

NOISE_STEPS = 64
"""Number of steps whose noise is drawn together."""
CHECKED_RUNS = 8
CHECKED_PAIRS = 200
"""Number of runs and of pair sums between which strengths are checked."""


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
    noise_seed: np.ndarray | None = dataclasses.field(default=None, kw_only=True)
    """(run,) Seeds of the noise; None at temperature 0."""


class ParticleSystem:
    """The particles of CA section 6 as a `dynamics.System`: an ensemble of runs that
    advance together.

    Parameters
    ----------
    settings : ParticleSettings
        Constants of the forces, integrator and initial positions.
    device : {"auto", "cpu", "cuda"}, optional
        Where to compute; "auto" is the CPU. An `Ensemble` selects the faster one.
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
        self.device = "cpu"
        if device not in ("auto", "cpu"):
            self.device = resolve_device(device, self.kind)
            self.kind.check_device(settings, self.device)
        self.numerics_version = self.kind.version(settings)
        self.ensemble_width = 0
        self.variables = {
            "embedding": ("token", "axis"),
            "gradient_norm": ("layer",),
            "update_norm": ("layer",),
        }
        self._given_pairs = pairs
        self._axes = tuple(range(settings.dim))

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

    @functools.cached_property
    def _parameters(self) -> IntegratorParameters:
        return integrator_parameters(self.settings, self.pairs)

    @functools.cached_property
    def device_particles(self) -> Any:
        """The ensemble on a CUDA device."""
        return _cuda_particles().DeviceParticles(
            self.settings, self.pairs, self._parameters
        )

    @property
    def device_memory(self) -> int:
        """Memory of a CUDA device in bytes; 0 on a CPU."""
        if self.device == "cpu":
            return 0
        return _cuda_particles().device_memory()

    def working_bytes(self, runs: int) -> int:
        """Estimated memory in bytes that `advance` needs for an ensemble of `runs`."""
        s = self.settings
        if self.device != "cpu":
            noise_steps = NOISE_STEPS if s.temperature else 0
            return _cuda_particles().working_bytes(
                s, len(self.pairs.first), runs, noise_steps
            )
        if s.uses_mesh:
            return (
                fast_forces.working_bytes(s.n, s.accuracy) + 8 * 32 * runs * s.n * s.dim
            )
        terms = sum(2 if force.pairs == "all" else 1 for force in s.forces)
        numbers = 2 * s.dim + terms * (s.dim + 1)
        per_block = s.n * (s.n + 1) // 2 * numbers * LANES_64
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
        if s.start == RANDOM:
            positions = randomness.normal_samples(
                seeds, "particles/start", (s.n, s.dim)
            )
        else:
            positions = load_initial_positions(s, seeds)
        return self.with_noise(self.state_from_positions(positions), seeds)

    def with_noise(self, state: ParticleState, seeds: np.ndarray) -> ParticleState:
        """A state with seeds of the noise, one per run, if the temperature is not 0 and
        it has none, such as that of runs that begin at temperature 0."""
        if not self.settings.temperature or state.noise_seed is not None:
            return state
        return dataclasses.replace(state, noise_seed=np.asarray(seeds, np.int64))

    def state_from_positions(self, positions: np.ndarray) -> ParticleState:
        """The state at step 0 of runs with initial positions (run, token, axis), which
        are normalised first.

        Raises SettingsError.
        """
        x = self.normalise(positions)
        if not self.settings.has_ca_strengths:  # CA's are finite at any distance
            _check_strengths(self.settings.forces, x, self.pairs)
        norm = self.force(x)[1]
        if not (norm < 1e38).all():
            _check_strengths(self.settings.forces, x[~(norm < 1e38)], self.pairs)
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
        variance = self._parameters.variance
        normalise_blocks(blocks, n, variance, self._axes)
        return pair_forces.from_blocks(blocks, runs, n, dim)

    def force(self, embedding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balanced force on every particle of an embedding (run, token, axis), and
        its norm, (run,).

        `advance` does not call it: it computes the force inside compiled kernels. A
        subclass with another force has to override `advance` too, or it is refused."""
        runs, n, dim = embedding.shape
        track = np.zeros((TRACK_ROWS, runs))
        total = self._run_kernel(embedding, 0, track, None)[1]
        return total.reshape(runs, n, dim), track[FORCE_NORM]

    def mean_force(self, embedding: np.ndarray, steps: int = 2) -> np.ndarray:
        """The mean of the forces before each of some steps without noise that begin at
        an embedding: (run, token, axis) for both.

        With the default step size particles at rest can jump to and fro between two
        places, where the force is large; the mean of two steps shows what moves them."""
        total = np.zeros_like(embedding, dtype=np.float64)
        for _ in range(steps):
            track = np.zeros((TRACK_ROWS, len(embedding)))
            track[NOT_DIVERGED] = 1
            embedding, force = self._run_kernel(embedding, 1, track, None)
            total += force.reshape(embedding.shape)
        return total / steps

    def fields(self, embedding: np.ndarray) -> np.ndarray:
        """The fields of the forces of the law with their constants and weights, on
        every particle of embeddings: (..., token, axis) -> (force, ..., token, axis).
        Their sum is `force`."""
        s = self.settings
        if s.uses_mesh:
            force, magnitude = fast_forces.fast_force_fields(
                embedding, self.pairs, s.accuracy
            )
        else:
            force, magnitude = pair_forces.force_fields(embedding, self.pairs, s.forces)
        return force * field_weights(magnitude, s, self.pairs)[..., None, None]

    def _run_kernel(
        self,
        embedding: np.ndarray,
        steps: int,
        track: np.ndarray,
        noise: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions after `steps` steps and the last total force; `track` (row, run) is
        updated in place. noise: (run, step, token, axis) displacements."""
        if self.device != "cpu":
            return self.device_particles.run(embedding, steps, track, noise)
        runs, n, dim = embedding.shape
        blocks = pair_forces.to_blocks(embedding)
        lanes = np.zeros((TRACK_ROWS, len(blocks) * LANES_64))
        lanes[:, :runs] = track
        lanes = np.ascontiguousarray(
            lanes.reshape(TRACK_ROWS, -1, LANES_64).swapaxes(0, 1)
        )
        noise_blocks = np.empty((len(blocks), 0, blocks.shape[1]))
        if noise is not None:
            flat = noise.reshape(runs, steps * n, dim)
            noise_blocks = pair_forces.to_blocks(flat)
            noise_blocks = noise_blocks.reshape(len(blocks), steps, -1)
        if self.settings.uses_mesh:
            total = self._advance_by_mesh(blocks, runs, steps, lanes, noise_blocks)
        else:
            across, threads = pair_forces.summation_plan(runs, self.pairs)
            advance = advance_kernel(self.settings.forces, dim)
            with numba_threads(threads):
                total = advance(
                    blocks,
                    runs,
                    across,
                    steps,
                    lanes,
                    noise_blocks,
                    self.pairs,
                    self._parameters,
                )
        track[:] = lanes.swapaxes(0, 1).reshape(TRACK_ROWS, -1)[:, :runs]
        return pair_forces.from_blocks(blocks, runs, n, dim), pair_forces.from_blocks(
            total, runs, n, dim
        )

    def _advance_by_mesh(
        self,
        blocks: np.ndarray,
        runs: int,
        steps: int,
        track: np.ndarray,
        noise: np.ndarray,
    ) -> np.ndarray:
        """The same as the kernel of `advance_kernel`, with fast sums."""
        s = self.settings
        for step in range(max(steps, 1)):
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
            force = force.reshape(len(blocks), len(s.forces), -1)
            magnitude = magnitude.reshape(len(blocks), len(s.forces), -1)
            apply_fields(
                blocks,
                force,
                magnitude,
                track,
                steps > 0,
                noise[:, step : step + 1],
                self.pairs,
                self._parameters,
                self._axes,
            )
        return np.ascontiguousarray(force[:, 0])

    def advance(self, state: ParticleState, steps: int) -> ParticleState:
        """The state `steps` steps later. A run depends only on its own state, bit for
        bit."""
        if state.noise_seed is None:
            return self._advance(state, steps, None)
        end = state.step + steps
        while state.step < end:
            block, first = divmod(state.step, NOISE_STEPS)
            last = min(first + end - state.step, NOISE_STEPS)
            noise = self._noise(state.noise_seed.tobytes(), block)[:, first:last]
            state = self._advance(state, last - first, noise)
        return state

    def _advance(
        self, state: ParticleState, steps: int, noise: np.ndarray | None
    ) -> ParticleState:
        """The state after some steps, with the displacements by noise (run, step,
        token, axis)."""
        if steps == 0:
            return state
        running = state.last_step == state.step
        track = np.array(
            [running, state.last_step, state.gradient_norm, state.update_norm],
            dtype=np.float64,
        )
        embedding, _ = self._run_kernel(state.embedding, steps, track, noise)
        last_step = track[LAST_STEP].astype(np.int64)
        return ParticleState(
            state.step + steps,
            embedding,
            track[FORCE_NORM],
            track[MOVE_NORM],
            last_step,
            noise_seed=state.noise_seed,
        )

    def _new_noise(self, seeds: bytes, block: int) -> np.ndarray:
        """The displacements by noise (run, step, token, axis) in a block of
        `NOISE_STEPS` steps; seeds: (run,) int64 as bytes."""
        s = self.settings
        samples = randomness.normal_samples(
            np.frombuffer(seeds, np.int64),
            f"particles/noise/{block}",
            (NOISE_STEPS, s.n, s.dim),
        )
        return np.sqrt(2 * s.temperature * s.step_size) * samples

    @functools.cached_property
    def _noise(self) -> Callable[[bytes, int], np.ndarray]:
        """`_new_noise`, which keeps the last block."""
        return functools.lru_cache(maxsize=1)(self._new_noise)

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
            if getattr(state, field.name) is not None
        }

    def restore(self, arrays: Mapping[str, Any]) -> ParticleState:
        """The state from the arrays of `checkpoint`, for all of its runs or a subset of
        them."""
        return ParticleState(**{**arrays, "step": int(arrays["step"])})


def _cuda_particles() -> Any:
    """The module of particles on CUDA devices, which needs numba-cuda."""
    return importlib.import_module("dynamics.particles.cuda_particles")


def _check_strengths(forces: Sequence[Force], x: np.ndarray, pairs: PairList) -> None:
    """Raise SettingsError if a strength is not finite at a distance or cosine that
    occurs between some pair sums of the first runs, x (run, token, axis)."""
    some = np.linspace(0, len(pairs.first) - 1, CHECKED_PAIRS).astype(int)
    some = np.unique(some) if len(pairs.first) else some[:0]
    sums = x[:CHECKED_RUNS, pairs.first[some]] + x[:CHECKED_RUNS, pairs.second[some]]
    length = np.linalg.norm(sums, axis=-1)
    product = sums @ sums.swapaxes(-1, -2)
    both = length[..., None] * length[..., None, :]
    distance = np.linalg.norm(sums[:, :, None] - sums[:, None], axis=-1)
    values = {
        "difference": distance[distance > 0],
        "other": np.clip(product[both > 0] / both[both > 0], -1, 1),
    }
    for force in forces:
        strength = evaluate(force.expression, values[force.along])
        wrong = values[force.along][~np.isfinite(strength)]
        if len(wrong):
            variable = VARIABLES[force.along]
            raise SettingsError(
                f"strength of {force.name}",
                f"{force.strength}, which is not finite at {variable} = {wrong[0]:.3g}",
                f"an expression that is finite where {variable} occurs",
            )
