"""Panels of CA's network: those of `particle_panels` for a classifier during training.

The map shows the class that the network predicts, and a cross marks each pair that it
gets wrong. The force is -dL/dE of the training loss. Beside it is the force that the
particle law, with all constants 1 and over the training pairs, gives at the same
embedding (CA section 5). All values are dimensionless."""

from __future__ import annotations

import functools

import numpy as np
import torch

from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
from analysis.panels import common_panels
from analysis.panels.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    curve_panel,
    join_notes,
    plane_panel,
)
from analysis.panels.particle_panels import PairPanels
from analysis.panels.recorded_weights import (
    VALUES_PER_BATCH,
    NetworkPanels,
    batch_slices,
)
from analysis.panels.scene import Panel
from analysis.structures.projection import fit_projection
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import constant_attention_of
from dynamics.networks.parameters import Weights
from dynamics.networks.threads import single_torch_thread
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings
from dynamics.tasks import modular_training_mask

_MAIN_PANELS = (
    "embedding",
    "pair_sums",
    "descent",
    "imperfections",
    "loss",
    "accuracy",
)

_MAX_COMPARED_FRAMES = 201
"""Largest number of frames in which law and gradient are compared."""

_COMPARISON_WORK = 2e9
"""Largest work of this comparison, which takes about a second."""

_MAX_PAIRS_OF_LAW = 100_000
"""Largest number of pairs for which the law, a sum over pairs of pairs, is evaluated (N
= 446)."""


@torch.no_grad()
def classify_points(
    network: ConstantAttention, weights: Weights, points: torch.Tensor
) -> np.ndarray:
    """Classes argmax W_o f(W_h x + b_h) + b_o of points x (..., point, axis): (...,
    point) int64.

    weights (...): leading axes broadcast with those of the points.
    """
    # a point is the sum of its half with itself
    twice = torch.arange(points.shape[-2])[:, None].expand(-1, 2)
    logits = network.logits({**weights, "embedding": points / 2}, twice)
    return logits.argmax(-1).numpy()


class ModularPanels(NetworkPanels, PairPanels):
    """Panels of a network whose weights were recorded."""

    def __init__(self, recorded: RecordedRun) -> None:
        super().__init__(recorded)
        self.network = constant_attention_of(recorded.data)
        seeds = np.array([recorded.seed])
        self.trained = modular_training_mask(self.network.settings, seeds)[0]

    def predicted(self, frames: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Classes of points (frame or 1, point, axis), computed in batches of frames:
        (frame, point)."""
        s = self.network.settings
        result = []
        for batch in batch_slices(len(frames), points.shape[1] * (s.n + s.hidden)):
            weights = self.weights_at(frames[batch])
            some = torch.from_numpy(points if len(points) == 1 else points[batch])
            with single_torch_thread():
                result.append(
                    classify_points(
                        self.network, weights, some.to(weights["embedding"].dtype)
                    )
                )
        return np.concatenate(result)

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        return (
            self.predicted(frames, self.sums(frames, self.marked))
            != self.residue[self.marked]
        )

    def classes(self, frames: np.ndarray) -> np.ndarray:
        return self.as_map(self.predicted(frames, self.map_points(frames)))

    # --------------------------------------------------------------------------- forces

    @functools.cached_property
    def particles(self) -> ParticleSystem:
        """Particles under CA's law, over the training pairs."""
        law = ParticleSettings(n=self.n, dim=self.dim)
        return ParticleSystem(law, pairs=self.pairs[self.trained])

    def descent(self, frames: np.ndarray) -> np.ndarray:
        """-dL/dE of the training loss, (frame, token, axis) float64, computed in
        batches of pairs."""
        pairs = torch.from_numpy(self.pairs[self.trained])
        weight = torch.full((len(pairs),), 1 / len(pairs), dtype=torch.float64)
        batch = max(1, VALUES_PER_BATCH // (self.n + self.network.settings.hidden))
        result = np.zeros((len(frames), self.n, self.dim))
        with single_torch_thread():
            for row, frame in enumerate(frames):
                weights = {
                    name: values.double()
                    for name, values in self.weights_at(np.array([frame])).items()
                }
                embedding = weights["embedding"].requires_grad_()
                for start in range(0, len(pairs), batch):
                    some = slice(start, start + batch)
                    loss = self.network.loss(weights, pairs[some], weight[some]).sum()
                    result[row] -= torch.autograd.grad(loss, embedding)[0][0].numpy()
        return result

    def law_force(self, frames: np.ndarray) -> np.ndarray:
        """Force of the particle law, (frame, token, axis)."""
        return self.particles.force(self.embedding[frames])[0]

    # --------------------------------------------------------------------------- panels

    def descent_panel(self) -> Panel:
        return self.force_panel(
            "descent",
            "−dL/dE",
            lambda frames: self.arrows(frames, self.descent(frames)),
            "arrows scaled in each frame",
            "Where the training loss pulls every number: against the gradient.",
        )

    def law_panel(self) -> Panel:
        return self.force_panel(
            "law",
            "particle law, f_a = 1",
            lambda frames: self.arrows(frames, self.law_force(frames)),
            "arrows scaled in each frame",
            "The force of particles at the positions of the network, to compare with the"
            " pull of the loss.",
        )

    def pair_sums_panel(self) -> Panel:
        filled = self.trained[self.marked]
        note = join_notes(
            "background: predicted class",
            "" if filled.all() else "filled: training pairs",
        )
        return self.pair_panel(filled, note, "wrong")

    @property
    def compared_frames(self) -> int:
        """Number of frames in which the law is compared with the gradient."""
        work = len(self.pairs) * (
            self.n * self.network.settings.hidden + len(self.pairs)
        )
        return int(min(_COMPARISON_WORK / work, _MAX_COMPARED_FRAMES))

    def cosine_panel(self) -> Panel:
        """Cosine between the law's force and -dL/dE, both without their translation and
        scaling components."""
        count = len(self.recorded.steps)
        frames = common_panels.evenly_spaced_indices(count, self.compared_frames)
        x = self.embedding[frames]
        forces = (
            without_shift_and_scaling(force, x)
            for force in (self.descent(frames), self.law_force(frames))
        )
        values = np.interp(np.arange(count), frames, cosine_similarity(*forces))[None]
        note = "translation and scaling removed" + (
            "" if len(frames) == count else f"; in {len(frames)} frames"
        )
        return curve_panel(
            self.recorded,
            "cosine",
            "cosine of law and −dL/dE",
            values,
            ("cosine",),
            log=False,
            y=(-1.05, 1.05),
            note=note,
            explanation="How well the force of particles points where the loss pulls: 1"
            " equal, 0 unrelated, −1 opposite.",
        )

    def hidden_panel(self) -> Panel:
        """Rows of the hidden layer's weights W_h, coloured by their direction at the
        end (CA 5.2)."""
        rows = self.weights["hidden_weight"].numpy()
        plane = fit_projection(rows[-1], self.recorded.axes)

        def places(frames: np.ndarray) -> np.ndarray:
            return plane.places(rows[frames])

        last = plane._replace(heights=None).places(rows[-1:])[0]
        return plane_panel(
            "hidden",
            "hidden weights",
            [common_panels.unit_points("hidden", last, places)],
            self.recorded.limits(
                places(self.recorded.limit_frames), square=self.dim > 1
            ),
            plane,
            "colour: direction at the end",
            explanation="The input weights of the hidden neurons. Look for directions"
            " that they share with pair sums.",
        )

    def run_panels(self) -> RunPanels:
        panels: dict[str, PanelFactory] = {
            "embedding": self.embedding_panel,
            "pair_sums": self.pair_sums_panel,
            "descent": self.descent_panel,
        }
        if len(self.pairs) <= _MAX_PAIRS_OF_LAW:
            panels["law"] = self.law_panel
        panels["hidden"] = self.hidden_panel
        panels |= common_panels.structure_panels(self.recorded)
        metrics = common_panels.metric_panels(self.recorded)
        panels |= {name: metrics.pop(name) for name in ("loss", "accuracy")}
        if self.compared_frames >= 2:
            panels["cosine"] = self.cosine_panel
        return RunPanels({**panels, **metrics}, _MAIN_PANELS)


def build_modular_panels(recorded: RecordedRun) -> RunPanels:
    """Panels of CA's network; without recorded weights, only those of the metrics."""
    network = constant_attention_of(recorded.data)
    if any(name not in recorded.data for name in network.variables):
        return common_panels.build_default_panels(recorded)
    return ModularPanels(recorded).run_panels()
