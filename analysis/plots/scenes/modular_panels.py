"""CA's panels of its network: what `analysis.plots.scenes.particle_panels` has of particles, of a classifier that
learns.

The true force is -dL/dE of the training loss; the law is that of particles with all constants 1, at the same embedding,
over the training pairs. All values are dimensionless.
"""

import functools
from collections.abc import Sequence

import numpy as np
import torch

from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
from analysis.plots.drawing import colours
from analysis.plots.scenes.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    build_default_panels,
    curve_panel,
    evenly_spaced_indices,
    metric_panels,
    plane_panel,
    structure_panels,
)
from analysis.plots.scenes.particle_panels import PairPanels, balanced_force_fields
from analysis.plots.scenes.recorded_weights import VALUES_PER_BATCH, NetworkPanels, batch_slices
from analysis.plots.scenes.scene import LayerArrays, Panel, Points
from analysis.structures.projection import Projection, fit_projection
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import constant_attention_of
from dynamics.networks.parameters import Weights
from dynamics.networks.threads import single_torch_thread
from dynamics.particles.pair_list import PairList, group_pairs
from dynamics.settings import ParticleSettings
from dynamics.tasks import training_pairs

MOST_COSINES, WORK = 201, 2e9
"""Frames in which the law is compared with the gradient, or as many as take about a second, if that is two."""
_MAX_PAIRS_OF_LAW = 100_000
"""Pairs up to which the law, which is over pairs of pairs, is shown at all: N = 446."""


@torch.no_grad()
def classify_points(network: ConstantAttention, weights: Weights, points: torch.Tensor) -> np.ndarray:
    """The class at points (frame or 1, point, axis) by the weights of frames: (frame, point) int64."""
    twice = torch.arange(points.shape[-2])[:, None].expand(-1, 2)  # a point is the sum of its half with itself
    return network.logits({**weights, "embedding": points / 2}, twice).argmax(-1).numpy()


class ModularPanels(NetworkPanels, PairPanels):
    """The panels of a network whose weights were recorded."""

    def __init__(self, recorded: RecordedRun) -> None:
        super().__init__(recorded)
        self.network = constant_attention_of(recorded.data)
        s = self.network.settings
        self.trained = training_pairs(s.n, s.train_pairs, np.array([recorded.seed]))[0]

    def classified(self, frames: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The class at points (frame or 1, point, axis), some frames at a time: (frame, point)."""
        s, found = self.network.settings, []
        for portion in batch_slices(len(frames), points.shape[1] * (s.n + s.hidden)):
            chosen = self.at(frames[portion])
            some = points if len(points) == 1 else points[portion]
            with single_torch_thread():
                found.append(
                    classify_points(self.network, chosen, torch.from_numpy(some).to(chosen["embedding"].dtype))
                )
        return np.concatenate(found)

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        return self.classified(frames, self.sums(frames, self.marked)) != self.residue[self.marked]

    def classes(self, frames: np.ndarray) -> np.ndarray:
        return self.fit(self.classified(frames, self.pixels(frames)))

    # ------------------------------------------------------------------------------------------- forces

    @functools.cached_property
    def law(self) -> tuple[ParticleSettings, PairList]:
        """Constants of the particle law and the pairs that it is over."""
        law = ParticleSettings(n=self.n, dim=self.dim)
        return law, group_pairs(self.n, self.pairs[self.trained], twice=True)

    def descent(self, frames: np.ndarray) -> np.ndarray:
        """-dL/dE of the training loss, (frame, token, axis) float64, some frames and pairs at a time."""
        pairs = torch.from_numpy(self.pairs[self.trained])
        share = torch.full((len(pairs),), 1 / len(pairs), dtype=torch.float64)
        few = max(1, VALUES_PER_BATCH // (self.n + self.network.settings.hidden))
        found = np.zeros((len(frames), self.n, self.dim))
        with single_torch_thread():
            for row, frame in enumerate(frames):
                chosen = {name: weight.double() for name, weight in self.at(np.array([frame])).items()}
                embedding = chosen["embedding"].requires_grad_()
                for start in range(0, len(pairs), few):
                    some = slice(start, start + few)
                    loss = self.network.loss(chosen, pairs[some], share[some]).sum()
                    found[row] -= torch.autograd.grad(loss, embedding)[0][0].numpy()
        return found

    def law_force(self, frames: np.ndarray) -> np.ndarray:
        """The law's force, (frame, token, axis)."""
        return balanced_force_fields(self.embedding[frames], *self.law).sum(axis=0)

    def forces(self, frames: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        found = {}
        if "descent" in names:
            found["descent"] = self.arrows(frames, self.descent(frames))
        if "law" in names:
            found["law"] = self.arrows(frames, self.law_force(frames))
        return found

    # ------------------------------------------------------------------------------------------- panels

    @property
    def cosines(self) -> int:
        """In how many frames the law is compared with the gradient."""
        each = len(self.pairs) * (self.n * self.network.settings.hidden + len(self.pairs))
        return int(min(WORK / each, MOST_COSINES))

    def cosine_panel(self) -> Panel:
        """How far the law points where the gradient does, without shift and change of size."""
        count = len(self.recorded.steps)
        at = evenly_spaced_indices(count, self.cosines)
        x = self.embedding[at]
        parts = (without_shift_and_scaling(force, x) for force in (self.descent(at), self.law_force(at)))
        values = np.interp(np.arange(count), at, cosine_similarity(*parts))[None]
        note = "without shift and size" + ("" if len(at) == count else f"; in {len(at)} frames")
        rgb = colours.class_colours(1)
        title = "cosine of law and −dL/dE"
        return curve_panel(self.recorded, "cosine", title, values, ("cosine",), rgb, False, (-1.05, 1.05), note)

    def hidden_panel(self) -> Panel:
        """The receptors of the hidden layer, W_h row by row, coloured by direction at the end (CA 5.2)."""
        rows = self.weights["hidden_weight"].numpy()
        plane = self.hidden_plane
        x, y = plane._replace(heights=None).places(rows[-1:])[0].T
        names = tuple(f"unit {unit}" for unit in range(rows.shape[1]))
        marks = Points("hidden", colours.angle_colours(np.arctan2(y, x)), names, size=0.8 if len(names) <= 64 else 0.5)
        box = self.recorded.box(plane.places(rows[self.recorded.looked_at]), square=self.dim > 1)
        return plane_panel("hidden", "hidden weights", [marks], box, plane)

    @functools.cached_property
    def hidden_plane(self) -> Projection:
        return fit_projection(self.weights["hidden_weight"][-1].numpy(), self.recorded.axes)

    def look(self, frames: np.ndarray, names: Sequence[str]) -> LayerArrays:
        found = dict(super().look(frames, names))
        if "hidden" in names:
            found["hidden"] = self.hidden_plane.places(self.at(frames)["hidden_weight"].numpy())
        return found

    def content(self) -> RunPanels:
        filled = self.trained[self.marked]
        said = "" if filled.all() else "filled: trained on"
        metrics, count = metric_panels(self.recorded), len(self.pairs)
        makers: dict[str, PanelFactory] = {
            "embedding": self.embedding_panel,
            "pair_sums": lambda: self.pair_panel("pair sums on class map", filled, said, "wrong"),
            "descent": lambda: self.force_panel("descent", "−dL/dE", "scaled anew in every frame"),
        }
        if count <= _MAX_PAIRS_OF_LAW:
            makers["law"] = lambda: self.force_panel("law", "particle law, f_a = 1", "scaled anew in every frame")
        makers |= {"hidden": self.hidden_panel, **structure_panels(self.recorded)}
        makers |= {name: metrics.pop(name) for name in ("loss", "accuracy")}
        if self.cosines >= 2:
            makers["cosine"] = self.cosine_panel
        return RunPanels({**makers, **metrics}, self.look)


def build_modular_panels(recorded: RecordedRun) -> RunPanels:
    """CA's panels of its network; without recorded weights those that are left."""
    network = constant_attention_of(recorded.data)
    if any(name not in recorded.data for name in network.variables):
        return build_default_panels(recorded)
    return ModularPanels(recorded).content()
