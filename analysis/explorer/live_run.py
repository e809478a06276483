"""Live runs: of the particle system, and of CA's network with particles beside it.

They do not depend on the page. Their states equal those of `simulate` with the same
settings and seed, bit for bit, until a user moves a particle; changed settings apply
from the next step on. All values are dimensionless."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import lazy_loader as lazy
import numpy as np

from analysis import panels, progress_measures
from analysis.structures.circles_and_grids import (
    count_imperfections,
    grid_or_neither,
    is_circle,
    norm_ratio,
)
from dynamics import networks
from dynamics.ensemble import create_system
from dynamics.kernels.compiling import numba_threads
from dynamics.settings import ParticleSettings
from dynamics.tasks import all_pairs

torch = lazy.load("torch")  # an extra, which particles do not need

EPOCHS_PER_STEP = 20
"""Epochs of the network per step of the particles, as runs in CA have 2000 epochs or
100 steps."""


class LiveRun:
    """One run of a system, whose settings can be changed while it runs."""

    immediate_settings: ClassVar[Sequence[str]] = ("lr", "weight_decay")
    """Settings that apply from the next step on; others restart the run."""
    unchanged: bool
    """Whether the state is that of a simulation with the current settings."""
    system: Any
    state: Any

    def __init__(self, settings: Any, seed: int = 0) -> None:
        """Raises MissingPackage if the system needs torch, which is missing."""
        self.settings = settings
        self.seed = seed
        self.restart()

    def restart(self) -> None:
        """Restart from the seed."""
        self.unchanged = True
        self.system = create_system(self.settings, "cpu")
        self.state = self.system.initial(np.array([self.seed]))

    @property
    def time(self) -> int:
        """The current step; of a diverged run, the last one before it diverged."""
        return int(self.state.last_step[0])

    @property
    def diverged(self) -> bool:
        """Whether the next step is not finite, so that the run stops before it."""
        return self.time < self.state.step

    def advance(self, steps: int) -> None:
        """Advance by some steps on one thread, which leaves the other threads to the
        browser."""
        with numba_threads(1):
            self.state = self.system.advance(self.state, steps)

    def change_settings(self, **settings: Any) -> bool:
        """Change settings, or the seed; return whether this restarted the run. Raises
        SettingsError."""
        seed = settings.pop("seed", self.seed)
        before = self.settings
        after = dataclasses.replace(before, **settings)
        immediate = {name: getattr(after, name) for name in self.immediate_settings}
        restarts = seed != self.seed or after != dataclasses.replace(
            before, **immediate
        )
        self.unchanged &= after == before or self.state.step == 0
        self.seed = seed
        self.settings = after
        if restarts:
            self.restart()
        elif after != before:
            arrays = self.system.checkpoint(self.state)
            self.system = create_system(after, "cpu")
            self.state = self.continued(self.system.restore(arrays))
        return restarts

    def continued(self, state: Any) -> Any:
        """The state of a run that goes on with other settings."""
        return state


class ParticleRun(LiveRun):
    """One run of the particle system."""

    immediate_settings = (
        "fa",
        "ga",
        "gr",
        "attraction",
        "repulsion",
        "alignment",
        "law",
        "temperature",
        "step_size",
    )

    def continued(self, state: Any) -> Any:
        return self.system.with_noise(state, np.array([self.seed]))

    @property
    def embedding(self) -> np.ndarray:
        """Positions, (token, axis)."""
        return self.state.embedding[0]

    def place_particle(
        self, token: int, position: np.ndarray, others: np.ndarray | None = None
    ) -> None:
        """Put a particle at a position (axis,) and normalise; the others react in the
        next step.

        others: positions of all particles (token, axis), by default the current ones.
        """
        moved = (self.embedding if others is None else others).copy()
        moved[token] = position
        self.unchanged = False
        self.state = dataclasses.replace(
            self.state, embedding=self.system.normalise(moved[None])
        )

    def mean_force(self) -> np.ndarray:
        """The mean force of two steps on every particle (token, axis)."""
        with numba_threads(1):
            return self.system.mean_force(self.state.embedding)[0]


class NetworkRun(LiveRun):
    """One run of a network, with its loss and accuracy."""

    variables: dict[str, np.ndarray]
    """What the system observes in the current state, without the axis of runs."""

    def restart(self) -> None:
        super().restart()
        self.observe_state()

    def advance(self, steps: int) -> None:
        super().advance(steps)
        self.observe_state()

    def observe_state(self) -> None:
        """Update `variables`."""
        observed = self.system.observe(self.state)
        self.variables = {name: values[0] for name, values in observed.items()}

    def by_split(self, name: str) -> dict[str, float]:
        """The loss or the accuracy of each split."""
        splits = [str(split) for split in self.system.coords()["split"]]
        return dict(zip(splits, map(float, self.variables[name]), strict=True))

    @property
    def loss(self) -> dict[str, float]:
        """The loss of each split."""
        return self.by_split("loss")

    @property
    def accuracy(self) -> dict[str, float]:
        """The accuracy of each split."""
        return self.by_split("accuracy")

    def scores(self) -> dict[str, float]:
        """Loss of each split, and the accuracy as `SPLIT_right`."""
        right = {f"{split}_right": share for split, share in self.accuracy.items()}
        return self.loss | right

    @property
    def accuracies(self) -> str:
        """The accuracy of each split, in words."""
        shares = [f"{share:.0%} {split}" for split, share in self.accuracy.items()]
        return "correct: " + ", ".join(shares)

    @property
    def embedding(self) -> np.ndarray:
        """The embedding of the network (token, axis), float64."""
        return self.variables["embedding"].astype(np.float64)

    @property
    def network(self) -> Any:
        """The pure functions of the network."""
        return self.system.network

    def weights(self) -> dict[str, Any]:
        """The weights as tensors (1, ...)."""
        return {
            name: torch.from_numpy(self.variables[name])[None]
            for name in self.network.variables
        }


class TrainingRun(NetworkRun):
    """One run of CA's network, and particles that start at its initial embedding."""

    particles: ParticleRun

    def restart(self) -> None:
        super().restart()
        n, dim = self.embedding.shape
        self.particles = ParticleRun(ParticleSettings(n=n, dim=dim))
        self.particles.state = self.particles.system.state_from_positions(
            self.embedding[None]
        )

    def advance(self, steps: int) -> None:
        """Train for some epochs, and advance the particles by the corresponding
        steps."""
        super().advance(steps)
        self.particles.advance(
            self.state.step // EPOCHS_PER_STEP - self.particles.state.step
        )

    def classes(self, points: np.ndarray) -> np.ndarray:
        """The class that the network assigns to points (point, axis) as pair sums:
        (point,)."""
        places = torch.from_numpy(points.astype(np.float32))[None]
        with networks.single_torch_thread():
            return panels.classify_points(self.network, self.weights(), places)[0]


class LiveTransformer(NetworkRun):
    """One run of a transformer that learns addition."""

    def strongest_planes(self, count: int) -> list[tuple[int, np.ndarray]]:
        """The strongest frequencies k of the embedding, with its positions in their
        planes, (token, 2)."""
        x = self.embedding[: self.settings.n]
        norms = progress_measures.fourier_norms(x)
        strongest = 1 + np.argsort(-norms, kind="stable")[:count]
        centred = x - x.mean(axis=0)
        return [(k, centred @ panels.frequency_plane(x, k)) for k in strongest.tolist()]

    @property
    def gini(self) -> float:
        """Gini coefficient of the Fourier norms of the embedding, near 1 for few
        frequencies."""
        norms = progress_measures.fourier_norms(self.embedding[: self.settings.n])
        return float(progress_measures.gini_coefficient(norms))

    def correct_logits(self) -> np.ndarray:
        """The correct logit of each pair (a, b), (a, b)."""
        with networks.single_torch_thread():
            logits = progress_measures.all_logits(self.network, self.weights())[0]
        a, b = np.indices(logits.shape[:2])
        return logits[a, b, (a + b) % self.settings.n]


class EmbeddingStructure(NamedTuple):
    """The structure that positions form (CA algorithms 1 and 2)."""

    circle: bool
    ratio: float
    """Largest norm divided by the smallest."""
    imperfections: int
    pairs: int
    """Number of pair sums."""

    @property
    def kind(self) -> str:
        """Circle, grid or neither."""
        if self.circle:
            return "circle"
        return grid_or_neither(self.imperfections, self.pairs)

    @property
    def text(self) -> str:
        """The kind of the structure, and the number of pair sums whose nearest other pair
        sum is an equal one."""
        count = f"{self.pairs - self.imperfections} of {self.pairs} sums"
        return f"{self.kind}; {count} are nearest to an equal one"


def embedding_structure(embedding: np.ndarray) -> EmbeddingStructure:
    """The structure of positions (token, axis), on one thread."""
    with numba_threads(1):
        return EmbeddingStructure(
            bool(is_circle(embedding)),
            min(float(norm_ratio(embedding)), 1e6),
            int(count_imperfections(embedding)),
            len(all_pairs(len(embedding))),
        )
