"""CA's panels: tokens, their pair sums over the class map of the plane, and forces on tokens (CA figures 1 to 5).

Of particles the map is the class of the nearest pair sum and a cross stands on each grid imperfection, a pair sum whose
nearest other one has another modular sum; the law's force is shown in whole and as its four fields. Of networks the map
is the classifier's and a cross stands on each pair that it gets wrong; the force is the true -dL/dE, beside the law at
the same embedding over the training pairs (CA section 5). Arrows are as long as the panel allows, in every frame anew:
a norm's curve tells how strong they are. All values are dimensionless.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial import cKDTree

from analysis.plots.drawing import colours
from analysis.plots.scenes.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    build_default_panels,
    join_notes,
    metric_panels,
    plane_panel,
    structure_panels,
    token_points,
)
from analysis.plots.scenes.scene import Arrows, Layer, LayerArrays, Map, Panel, Points
from analysis.structures.circles_and_grids import imperfect_pair_sums
from analysis.structures.projection import (
    MAX_COORDINATE,
    PANEL_MARGIN,
    PanelLimits,
    Projection,
    fit_projection,
    pixel_centres,
)
from dynamics.particles.pair_forces import FIELD_NAMES, force_fields
from dynamics.particles.pair_list import PairList
from dynamics.particles.system import ParticleSystem
from dynamics.randomness import random_stream
from dynamics.settings import ParticleSettings
from dynamics.tasks import all_pairs, modular_sum

_MAX_MARKED_PAIRS = 2000
"""Pair sums that are marked; of more, some at random, the same in every run."""
ARROW_LENGTH = 0.2
"""Of a frame's arrows, as a share of the embedding's panel."""


# ------------------------------------------------------------------------------------------- array functions


def nearest_pair_classes(sums: np.ndarray, residue: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The modular sum of the pair sum nearest to points: (pair, axis), (pair,), (point, axis) -> (point,)."""
    return residue[cKDTree(sums).query(points)[1]]


def balanced_force_fields(embedding: np.ndarray, law: ParticleSettings, pairs: PairList) -> np.ndarray:
    """The four fields as the law adds them up, with constants and balance: (..., token, axis) -> (field, ...).

    Their sum is the force of `dynamics.particles.system.ParticleSystem`, whose rules these are.
    """
    found = force_fields(embedding, pairs)
    attraction, repulsion, like, unlike = found.magnitude
    weights = [
        np.full(attraction.shape, law.ga),
        law.gr * _balance(law.repulsion_balance, attraction, repulsion, pairs),
        np.full(attraction.shape, law.fa),
        law.fa * _balance(law.alignment_balance, like, unlike, pairs),
    ]
    return np.stack(weights)[..., None, None] * found.force


def _balance(rule: str, like: np.ndarray, unlike: np.ndarray, pairs: PairList) -> np.ndarray:
    """What an unlike field is weighted by: the ratio of summed magnitudes (...), or of numbers of pairs, or 1."""
    if rule == "magnitude":
        return np.divide(like, unlike, out=np.zeros_like(like), where=unlike > 0)
    ratio = (pairs.like / pairs.unlike if pairs.unlike else 0.0) if rule == "count" else 1.0
    return np.full(like.shape, ratio)


def scaled_arrows(
    places: np.ndarray, vectors: np.ndarray, length: float, longest: np.ndarray | None = None
) -> np.ndarray:
    """Vectors at places, both (frame, token, 2), as arrows (frame, token, 4), the longest of a frame of some length.

    longest (frame,): what counts as the longest; None is that of these vectors.
    """
    most = np.linalg.norm(vectors, axis=-1).max(axis=-1) if longest is None else longest
    scale = np.divide(length, most, out=np.zeros_like(most), where=most > 0)
    tips = places + scale[:, None, None] * vectors
    return np.concatenate([places, tips], axis=-1).clip(-MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)


# ------------------------------------------------------------------------------------------------ the panels


class PairPanels:
    """What particles and networks have in common."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.recorded, self.embedding = recorded, recorded.embedding.astype(np.float64)
        self.n, self.dim = self.embedding.shape[1:]
        self.pairs = all_pairs(self.n)
        self.residue = modular_sum(self.pairs, self.n)
        count = len(self.pairs)
        drawn = random_stream(0, "panels/pairs").permutation(count)[:_MAX_MARKED_PAIRS]
        self.marked = np.sort(drawn) if count > _MAX_MARKED_PAIRS else np.arange(count)

    def sums(self, frames: np.ndarray, which: np.ndarray | None = None) -> np.ndarray:
        """Pair sums, all or some: (frame, pair, axis)."""
        pairs = self.pairs if which is None else self.pairs[which]
        x = self.embedding[frames]
        return x[:, pairs[:, 0]] + x[:, pairs[:, 1]]

    @functools.cached_property
    def plane(self) -> Projection:
        return fit_projection(self.embedding[-1], self.recorded.axes)

    @functools.cached_property
    def pair_plane(self) -> Projection:
        """The same, as pair sums vary along the axes of the tokens; those of one axis stand at their modular sum."""
        if self.dim > 1:
            return self.plane
        return fit_projection(self.sums(np.array([-1]), self.marked)[0], self.recorded.axes, self.residue[self.marked])

    @functools.cached_property
    def box(self) -> PanelLimits:
        places = self.plane.places(self.embedding[self.recorded.looked_at])
        return self.recorded.box(places, square=self.dim > 1)

    @functools.cached_property
    def wide_box(self) -> PanelLimits:
        """Wider, so that the longest arrow on an outermost token is within."""
        (left, right), (bottom, top) = self.box.x, self.box.y
        room = 1.05 * ARROW_LENGTH * (right - left) - PANEL_MARGIN / (1 + 2 * PANEL_MARGIN) * (right - left)
        return self.box._replace(x=(left - room, right + room), y=(bottom - room, top + room))

    @functools.cached_property
    def pair_box(self) -> PanelLimits:
        """Twice the other: the outermost pair sums are those of a token with itself."""
        places = 2 * self.plane.places(self.embedding[self.recorded.looked_at])
        return self.recorded.box(places, square=self.dim > 1)

    def look(self, frames: np.ndarray, names: Sequence[str]) -> LayerArrays:
        """See `Scene.look`."""
        makers: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "embedding": lambda at: self.plane.places(self.embedding[at]),
            "pair_sums": lambda at: self.pair_plane.places(self.sums(at, self.marked)),
            "crosses": self.crosses,
            "classes": self.classes,
        }
        found = {name: makers[name](frames) for name in names if name in makers}
        return found | self.forces(frames, [name for name in names if name not in makers])

    def crosses(self, frames: np.ndarray) -> np.ndarray:
        """Places of pair sums that are wrong, NaN for the others: (frame, pair, 2)."""
        places = self.pair_plane.places(self.sums(frames, self.marked))
        return np.where(self.wrong(frames)[..., None], places, np.float32(np.nan))

    def pixels(self, frames: np.ndarray) -> np.ndarray:
        """What stands at the pixels of the map: (frame or 1, pixel, axis)."""
        through = 2 * self.embedding[frames].mean(axis=1)
        return self.pair_plane.points(pixel_centres(self.pair_box, self.recorded.side), through)

    def arrows(self, frames: np.ndarray, vectors: np.ndarray, longest: np.ndarray | None = None) -> np.ndarray:
        """Vectors (frame, token, axis) on the tokens."""
        tips = vectors @ self.plane.basis.T
        length = ARROW_LENGTH * (self.box.x[1] - self.box.x[0])
        return scaled_arrows(self.plane.places(self.embedding[frames]), tips, length, longest)

    # what differs

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        """Which of the marked pair sums are wrong: (frame, pair) bool."""
        raise NotImplementedError

    def classes(self, frames: np.ndarray) -> np.ndarray:
        """The class map: (frame, row, column)."""
        raise NotImplementedError

    def forces(self, frames: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Arrows of the forces that are named: (frame, token, 4) each."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------- panels

    def embedding_panel(self) -> Panel:
        return plane_panel("embedding", "embedding", [token_points("embedding", self.n)], self.box, self.plane)

    def force_panel(self, name: str, title: str, note: str) -> Panel:
        names = tuple(f"{title} on {token}" for token in range(self.n))
        dark = np.full((self.n, 3), 0.15)
        layers: list[Layer] = [token_points("embedding", self.n), Arrows(name, dark, names)]
        return plane_panel(name, title, layers, self.wide_box, self.plane, note=note)

    def pair_panel(self, title: str, filled: np.ndarray | None, filled_note: str, cross: str) -> Panel:
        rgb, marked = colours.class_colours(self.n), self.marked
        names = tuple(f"{i} + {j} = {c}" for (i, j), c in zip(self.pairs[marked], self.residue[marked], strict=True))
        size = float(np.clip(np.sqrt(150 / len(marked)), 0.3, 1.2))
        sums = Points("pair_sums", rgb[self.residue[marked]], names, filled=filled, size=size)
        black = np.zeros((len(marked), 3))
        crosses = Points("crosses", black, names, ("cross",) * len(marked), size=0.6 * size)
        map_names = tuple(f"class {c}" for c in range(self.n))
        layers: list[Layer] = [Map("classes", colours.pale_colours(rgb), map_names, lines=False), sums, crosses]
        some = "" if len(marked) == len(self.pairs) else f"{len(marked)} of {len(self.pairs)} pairs"
        note = join_notes("map through the mean" if self.dim > 2 else "", filled_note, "×: " + cross, some)
        return plane_panel("pair_sums", title, layers, self.pair_box, self.pair_plane, note=note, origin=False)

    def fit(self, classes: np.ndarray) -> np.ndarray:
        """Classes (frame, pixel) as a map."""
        side = self.recorded.side
        return classes.reshape(-1, side, side).astype(np.uint8 if self.n <= 256 else np.uint16)


class ParticlePanels(PairPanels):
    """The panels of particles."""

    @functools.cached_property
    def system(self) -> ParticleSystem:
        return ParticleSystem(self.recorded.settings)

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        return imperfect_pair_sums(self.embedding[frames])[:, self.marked]

    def classes(self, frames: np.ndarray) -> np.ndarray:
        points = np.broadcast_to(self.pixels(frames), (len(frames), self.recorded.side**2, self.dim))
        each = zip(self.sums(frames), points, strict=True)
        return self.fit(np.stack([nearest_pair_classes(sums, self.residue, at) for sums, at in each]))

    def forces(self, frames: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        if not names:
            return {}
        parts = balanced_force_fields(self.embedding[frames], self.recorded.settings, self.system.pairs)
        found = {"force": self.arrows(frames, parts.sum(axis=0))}
        longest = np.linalg.norm(parts @ self.plane.basis.T, axis=-1).max(axis=(0, 2))
        for name, part in zip(FIELD_NAMES, parts, strict=True):
            found[name] = self.arrows(frames, part, longest)
        return {name: found[name] for name in names}

    def content(self) -> RunPanels:
        makers: dict[str, PanelFactory] = {
            "embedding": self.embedding_panel,
            "pair_sums": lambda: self.pair_panel("pair sums, nearest class", None, "", "imperfection"),
            "force": lambda: self.force_panel("force", "force", "scaled anew in every frame"),
        }
        for name in FIELD_NAMES:
            note = "fields at one scale"
            makers[name] = functools.partial(self.force_panel, name, name.replace("_", " "), note)
        makers |= {**structure_panels(self.recorded), **metric_panels(self.recorded)}
        return RunPanels(makers, self.look)


def build_particle_panels(recorded: RecordedRun) -> RunPanels:
    """CA's panels of particles."""
    return ParticlePanels(recorded).content() if "embedding" in recorded.data else build_default_panels(recorded)
