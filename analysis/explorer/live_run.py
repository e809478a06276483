"""Runs that move as a person looks: of the particle system, and of CA's network with particles beside it.

They know no page. Their motion is that of `simulate` at the same settings and seed, bit for bit, until somebody moves a
particle; other settings hold from the next step on, as in `dynamics.simulation.branch`. All values are dimensionless.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from analysis.structures.circles_and_grids import CIRCLE_RATIO, circularity, count_imperfections, format_structure
from dynamics.kernels.compiling import numba_threads
from dynamics.particles.system import ParticleState, ParticleSystem
from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.system_checks import create_system

MAX_HISTORY_POINTS = 1000
"""Points of a curve above which every other one is left out."""
EPOCHS_PER_STEP = 20
"""Epochs of the network for a step of the particles beside it: 2000 for 100, as long as runs are in CA."""


# --------------------------------------------------------------------------------------------- particles


class ParticleRun:
    """One run of the particle system, which can be changed while it moves."""

    def __init__(self, settings: ParticleSettings, seed: int = 0) -> None:
        self.system, self.seed = ParticleSystem(settings), seed
        self._known: tuple[ParticleState, EmbeddingStructure] | None = None
        self.restart()

    @property
    def structure(self) -> "EmbeddingStructure":
        """What the particles form where they are."""
        if self._known is None or self._known[0] is not self.state:
            self._known = self.state, embedding_structure(self.embedding)
        return self._known[1]

    @property
    def settings(self) -> ParticleSettings:
        return self.system.settings

    @property
    def embedding(self) -> np.ndarray:
        """Positions, (token, axis)."""
        return self.state.embedding[0]

    @property
    def diverged(self) -> bool:
        """Whether the run has come to a step that cannot be taken, and stays before it."""
        return bool(self.state.last_step[0] < self.state.step)

    def restart(self, embedding: np.ndarray | None = None) -> None:
        """Begin anew, from the seed or from positions (token, axis), which are normalised."""
        if embedding is None:
            self.state = self.system.initial(np.array([self.seed]))
        else:
            self.state = self.system.state_from_positions(embedding[None])

    def advance(self, steps: int) -> None:
        """Take some steps, on one thread: the browser needs the other, and meeting often costs more than it saves."""
        with numba_threads(1):
            self.state = self.system.advance(self.state, steps)

    def change(self, **settings: Any) -> bool:
        """Take other settings at once. Whether the run had to begin anew for them. Raises SettingsError.

        settings: fields of `ParticleSettings`, and seed. N, D and the seed are the run's own: it begins anew.
        """
        seed = settings.pop("seed", self.seed)
        before, after = self.settings, dataclasses.replace(self.settings, **settings)
        anew = (seed, after.n, after.dim) != (self.seed, before.n, before.dim)
        if after != before:
            self.system = ParticleSystem(after)
        self.seed = seed
        if anew:
            self.restart()
        return anew

    def place(self, token: int, position: np.ndarray, among: np.ndarray | None = None) -> None:
        """Put a particle somewhere, (axis,), and normalise; what the others feel of it they do in the next step.

        among: where all others are, (token, axis); None is where they are now.
        """
        moved = (self.embedding if among is None else among).copy()
        moved[token] = position
        self.state = dataclasses.replace(self.state, embedding=self.system.normalise(moved[None]))

    def force(self) -> np.ndarray:
        """The balanced force on every particle where it is, (token, axis)."""
        with numba_threads(1):
            return self.system.force(self.state.embedding)[0][0]

    @property
    def force_norm(self) -> float:
        """Norm of the force on all particles before the last step, or where the run began."""
        return float(self.state.gradient_norm[0])


# ----------------------------------------------------------------------------------------------- training


class TrainingRun:
    """One run of CA's network, and particles that began at its first embedding."""

    def __init__(self, settings: ModularSettings, seed: int = 0) -> None:
        """Raises MissingPackage without torch."""
        self.settings, self.seed = settings, seed
        self.restart()

    def restart(self) -> None:
        """Begin anew from the seed."""
        self.system = create_system(self.settings, "cpu")
        self.state = self.system.initial(np.array([self.seed]))
        self.score()
        self.particles = ParticleRun(ParticleSettings(n=self.settings.n, dim=self.settings.dim), self.seed)
        self.particles.restart(self.embedding)

    @property
    def epoch(self) -> int:
        """The last that was trained; a run that diverged stays there."""
        return int(self.state.last_step[0])

    @property
    def diverged(self) -> bool:
        return self.epoch < self.state.step

    def advance(self, epochs: int) -> None:
        """Train, and move the particles as far."""
        self.state = self.system.advance(self.state, epochs)
        self.particles.advance(self.state.step // EPOCHS_PER_STEP - self.particles.state.step)
        self.score()

    def change(self, **settings: Any) -> bool:
        """Take other settings at once. Whether the run had to begin anew for them. Raises SettingsError.

        settings: lr and weight_decay, which keep weights and moments; and others, seed among them, which do not.
        """
        seed = settings.pop("seed", self.seed)
        after = dataclasses.replace(self.settings, **settings)
        kept = dataclasses.replace(self.settings, lr=after.lr, weight_decay=after.weight_decay)
        anew = (kept, self.seed) != (after, seed)
        if (after, seed) == (self.settings, self.seed):
            return False
        self.settings, self.seed = after, seed
        if anew:
            self.restart()
        else:
            arrays = self.system.checkpoint(self.state)
            self.system = create_system(after, "cpu")
            self.state = self.system.restore(arrays)
        return anew

    def score(self) -> None:
        """See what the network knows: loss and accuracy by split."""
        self.seen = {name: values[0] for name, values in self.system.observe(self.state).items()}
        splits = [str(split) for split in self.system.coords()["split"]]
        self.loss, self.accuracy = (
            dict(zip(splits, map(float, self.seen[name]), strict=True)) for name in ("loss", "accuracy")
        )

    @property
    def embedding(self) -> np.ndarray:
        """The network's, (token, axis) float64."""
        return self.seen["embedding"].astype(np.float64)

    def classes(self, points: np.ndarray) -> np.ndarray:
        """What the network takes points (point, axis) for, were they pair sums: (point,)."""
        import torch

        from analysis.plots.scenes.modular_panels import classify_points
        from dynamics.networks.threads import single_torch_thread

        weights = {name: torch.from_numpy(self.seen[name])[None] for name in self.system.network.variables}
        with single_torch_thread():
            return classify_points(self.system.network, weights, torch.from_numpy(points.astype(np.float32))[None])[0]


# ---------------------------------------------------------------------------------------- what it has been


class History:
    """Quantities of a run so far, thinned as they grow."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.clear()

    def clear(self) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.every, self.count = 1, 0

    def add(self, *row: float) -> None:
        """Keep a row of numbers, or when there are many only every other, then every fourth one and so on."""
        if self.count % self.every == 0:
            self.rows.append(row)
        self.count += 1
        if len(self.rows) > MAX_HISTORY_POINTS:
            self.rows = self.rows[::2]
            self.every *= 2

    def arrays(self) -> dict[str, np.ndarray]:
        """Each column, (point,)."""
        table = np.array(self.rows, np.float64).reshape(-1, len(self.columns))
        return dict(zip(self.columns, table.T, strict=True))


class EmbeddingStructure(NamedTuple):
    """What positions form (CA algorithms 1 and 2)."""

    ratio: float
    """Largest norm over smallest."""
    imperfections: int

    @property
    def words(self) -> str:
        return format_structure(self.ratio < CIRCLE_RATIO, self.imperfections)


def embedding_structure(embedding: np.ndarray) -> EmbeddingStructure:
    """The structure of positions (token, axis), on one thread."""
    with numba_threads(1):
        return EmbeddingStructure(min(float(circularity(embedding)), 1e6), int(count_imperfections(embedding)))
