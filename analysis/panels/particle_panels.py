"""Panels of CA's particles, and of systems from outside whose tokens are numbers:
tokens, their pair sums over a class map of the plane, and forces on tokens.

The map shows the residue of the nearest pair sum. A cross marks each grid imperfection,
a pair sum whose nearest other pair sum has another residue. Of many pair sums, images
show the density and the fraction of imperfections in each cell of the plane. The force
is drawn in total and as the field of each force of the law (CA figures 1 to 5). The longest arrow of a
frame has the same length in every frame; the curve of the norm shows the strength of
the force. All values are dimensionless.

`PairPanels` is the base class of these panels and of those of CA's network
(`modular_panels`)."""

from __future__ import annotations

import functools
import math

import numpy as np
from matplotlib.colors import to_rgb
from scipy.spatial import cKDTree

from analysis.panels import colours, common_panels
from analysis.panels.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    join_notes,
    keep_last,
    plane_panel,
)
from analysis.panels.limits import PANEL_MARGIN, PanelLimits, pixel_centres
from analysis.panels.scene import (
    ArrayFunction,
    Arrows,
    Image,
    Layer,
    Map,
    Panel,
    Points,
    no_values,
)
from analysis.structures.circles_and_grids import imperfect_pair_sums
from analysis.structures.projection import MAX_COORDINATE, Projection, fit_projection
from dynamics.forces import CA, Force
from dynamics.particles import (
    ParticleSystem,
    has_known_law,
    known_law,
    moves_as_particles,
)
from dynamics.randomness import random_stream
from dynamics.settings import SettingsError
from dynamics.settings_text import short_expression
from dynamics.strengths import evaluate
from dynamics.tasks import all_pairs, modular_sum
from dynamics.trajectory.schema import adds_numbers

_MAP_OPACITY = 0.55
"""Opacity of the colours of classes in the background of pair sums."""

_MAX_MARKED_PAIRS = 2000
"""Largest number of pair sums that are drawn; of more, a random selection, the same for
every run."""

_MIN_PAIRS_FOR_DENSITY = 10_000
"""Number of pair sums of particles from which images show them (N = 141)."""

_MAX_ARROWS = 120
"""Largest number of arrows of a panel; of more tokens, evenly spaced ones have
arrows."""

_MAIN_PANELS = (
    "embedding",
    "pair_sums",
    "force",
    "imperfections",
    "norm_ratio",
    "gradient_norm",
)

PAIR_SUMS_EXPLANATION = (
    "The sum of the positions of two numbers, for every pair, in the colour of its"
    " answer: pairs of one answer gather. A coloured background is the answer for a sum"
    " at this place. A sum is a grid imperfection if the nearest other sum has another"
    " answer."
)

_FORCE_EXPLANATION = (
    "The force on every particle, mean of this step and the next: particles of a grid"
    " jump to and fro. What is left at rest changes only the size, which every step"
    " restores."
)

_OWN_FORCE_EXPLANATION = (
    "The force of the law on every point. The system may move its points otherwise than"
    " along it."
)

_ARRAY_NAMES = ("pair_sums", "classes", "crosses", "density", "imperfect_fraction")
"""Names of arrays that panels of pair sums have; no field has one of them."""

_SAMPLES = {
    "difference": np.geomspace(1e-3, 10, 200),
    "other": np.linspace(-1, 1, 201),
}
"""Distances and cosines at which the sign of a strength is evaluated, by the direction
of the force."""

_EFFECTS = {
    "difference": {-1: "attract", 1: "repel"},
    "other": {-1: "different directions", 1: "one direction"},
}
"""What a strength of each sign does, by the direction of the force."""

_PAIRS_IN_WORDS = {
    "like": "equal pair sums",
    "unlike": "different pair sums",
    "all": "all pair sums",
}

ARROW_LENGTH = 0.2
"""Length of a frame's longest arrow as a fraction of the embedding panel's width."""


# ---------------------------------------------------------------------- array functions


def nearest_pair_classes(
    sums: np.ndarray, residue: np.ndarray, points: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """Residue (point,) of the pair sum (pair, axis) nearest to each of the points
    (point, axis) of a plane, which is parallel to an orthonormal basis (2, axis).

    Of many axes, two in the plane and the distance from it take their place."""
    if sums.shape[1] > 3:
        offsets = sums - points[0]
        places = offsets @ basis.T
        heights = np.linalg.norm(offsets - places @ basis, axis=1)
        sums = np.column_stack([places, heights])
        points = np.pad((points - points[0]) @ basis.T, ((0, 0), (0, 1)))
    return residue[cKDTree(sums).query(points)[1]]


def shown_as_density(n: int) -> bool:
    """Whether images show the pair sums of N particles, as there are too many for
    marks."""
    return n * (n + 1) // 2 >= _MIN_PAIRS_FOR_DENSITY


def cell_sums(
    places: np.ndarray, box: np.ndarray, side: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Number of points (point, 2), or sum of their weights (point,), in side x side
    cells that tile a box (axis, end).

    (row, column), the first row at the top.
    """
    across, (low, high) = box
    sums, _, _ = np.histogram2d(
        -places[:, 1], places[:, 0], side, [(-high, -low), across], weights=weights
    )
    return sums.astype(np.float32)


def field_explanation(force: Force) -> str:
    """What a force of a law does, in one sentence."""
    constant = 1.0 if isinstance(force.constant, str) else force.constant
    values = constant * evaluate(force.expression, _SAMPLES[force.along])
    signs = [sign for sign in (-1, 1) if (sign * values > 0).any()]
    effects = [_EFFECTS[force.along][sign] for sign in signs]
    between = _PAIRS_IN_WORDS[force.pairs]
    if not effects:
        return f"A force between {between} that is zero."
    words = " or ".join(effects)
    if force.is_radial:
        return f"The part of the force by which {between} {words}."
    return f"The part of the force that turns {between} into {words}."


def scaled_arrows(
    places: np.ndarray,
    vectors: np.ndarray,
    length: float | np.ndarray,
    longest: np.ndarray | None = None,
) -> np.ndarray:
    """Arrows (frame, token, 4) of vectors at places, both (frame, token, 2), scaled in
    each frame.

    A vector of the norm `longest` (frame,), by default the largest norm of the frame,
    becomes an arrow of `length`, which may differ between frames."""
    most = np.linalg.norm(vectors, axis=-1).max(axis=-1) if longest is None else longest
    scale = np.divide(length, most, out=np.zeros_like(most), where=most > 0)
    tips = places + scale[:, None, None] * vectors
    return (
        np.concatenate([places, tips], axis=-1)
        .clip(-MAX_COORDINATE, MAX_COORDINATE)
        .astype(np.float32)
    )


def pair_sum_points(
    array: str,
    n: int,
    pairs: np.ndarray,
    filled: np.ndarray | None = None,
    size: float = 1.0,
    values: ArrayFunction = no_values,
) -> Points:
    """Markers of the pair sums of N tokens, coloured by the sum modulo N. pairs: (pair,
    2) tokens. size: area relative to the default. values: positions at frames, (frame,
    pair, 2)."""
    residue = modular_sum(pairs, n)
    names = tuple(f"{i} + {j} = {c}" for (i, j), c in zip(pairs, residue, strict=True))
    rgb = colours.class_colours(n)[residue]
    size *= float(np.clip(np.sqrt(150 / len(pairs)), 0.3, 1.2))
    return Points(array, rgb, names, filled=filled, size=size, values=values)


# --------------------------------------------------------------------------- the panels


class PairPanels:
    """Base class of the panels of particles and of CA's network."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.recorded = recorded
        self.embedding = recorded.embedding.astype(np.float64)
        self.n, self.dim = self.embedding.shape[1:]
        self.pairs = all_pairs(self.n)
        self.residue = modular_sum(self.pairs, self.n)
        count = len(self.pairs)
        order = random_stream(0, "panels/pairs").permutation(count)
        self.with_arrows = common_panels.evenly_spaced_indices(self.n, _MAX_ARROWS)
        self.marked = (
            np.sort(order[:_MAX_MARKED_PAIRS])
            if count > _MAX_MARKED_PAIRS
            else np.arange(count)
        )

    def sums(self, frames: np.ndarray, which: np.ndarray | None = None) -> np.ndarray:
        """Pair sums at frames, all or some: (frame, pair, axis)."""
        pairs = self.pairs if which is None else self.pairs[which]
        x = self.embedding[frames]
        return x[:, pairs[:, 0]] + x[:, pairs[:, 1]]

    @functools.cached_property
    def plane(self) -> Projection:
        """Projection of tokens."""
        return fit_projection(self.embedding[-1], self.recorded.axes)

    @functools.cached_property
    def pair_plane(self) -> Projection:
        """Projection of pair sums: that of tokens, which has the same axes; on one
        axis, with heights by residue."""
        if self.dim > 1:
            return self.plane
        sums = self.sums(np.array([-1]), self.marked)[0]
        return fit_projection(sums, self.recorded.axes, self.residue[self.marked])

    @functools.cached_property
    def limits(self) -> PanelLimits:
        """Limits of tokens."""
        return self._limits_of(1)

    @functools.cached_property
    def pair_limits(self) -> PanelLimits:
        """Limits of pair sums; the outermost are sums of a token with itself."""
        return self._limits_of(2)

    def _limits_of(self, multiple: int) -> PanelLimits:
        places = multiple * self.plane.places(
            self.embedding[self.recorded.limit_frames]
        )
        return self.recorded.limits(places, square=self.dim > 1)

    @functools.cached_property
    def force_limits(self) -> PanelLimits:
        """Limits of tokens, extended so that the longest arrow at an outermost token is
        inside."""
        return self.limits.widened(
            1.2 * ARROW_LENGTH - PANEL_MARGIN / (1 + 2 * PANEL_MARGIN)
        )

    def places(self, frames: np.ndarray) -> np.ndarray:
        """Positions of tokens, (frame, token, 2)."""
        return self.plane.places(self.embedding[frames])

    def pair_places(self, frames: np.ndarray) -> np.ndarray:
        """Positions of the marked pair sums, (frame, pair, 2)."""
        return self.pair_plane.places(self.sums(frames, self.marked))

    def crosses(self, frames: np.ndarray) -> np.ndarray:
        """Positions of the wrong pair sums, NaN for the others: (frame, pair, 2)."""
        places = self.pair_places(frames)
        return np.where(self.wrong(frames)[..., None], places, np.float32(np.nan))

    def map_points(self, frames: np.ndarray) -> np.ndarray:
        """Points at the centres of the map's pixels: (frame or 1, pixel, axis)."""
        mean_sum = 2 * self.embedding[frames].mean(axis=1)
        return self.pair_plane.points(
            pixel_centres(self.pair_limits.at(frames), self.recorded.side), mean_sum
        )

    def as_map(self, classes: np.ndarray) -> np.ndarray:
        """Classes (frame, pixel) as an array of a `Map`, (frame, row, column)."""
        side = self.recorded.side
        return classes.reshape(-1, side, side).astype(
            np.uint8 if self.n <= 256 else np.uint16
        )

    def arrows(
        self, frames: np.ndarray, vectors: np.ndarray, longest: np.ndarray | None = None
    ) -> np.ndarray:
        """Arrows of vectors (frame, token, axis) at the tokens that have arrows:
        (frame, arrow, 4)."""
        tips = vectors[:, self.with_arrows] @ self.plane.basis.T
        places = self.places(frames)[:, self.with_arrows]
        length = ARROW_LENGTH * np.ptp(self.limits.at(frames)[:, 0], axis=-1)
        return scaled_arrows(places, tips, length, longest)

    # defined by subclasses

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        """Which of the marked pair sums are wrong: (frame, pair) bool."""
        raise NotImplementedError

    def classes(self, frames: np.ndarray) -> np.ndarray:
        """The class map: (frame, row, column)."""
        raise NotImplementedError

    # --------------------------------------------------------------------------- panels

    def embedding_panel(self) -> Panel:
        tokens = common_panels.token_points("embedding", self.n, True, self.places)
        return plane_panel(
            "embedding",
            "embedding",
            [tokens],
            self.limits,
            self.plane,
            common_panels.token_note(self.n, joined=True),
            explanation=common_panels.EMBEDDING_EXPLANATION,
        )

    def force_panel(
        self, name: str, title: str, arrows: ArrayFunction, note: str, explanation: str
    ) -> Panel:
        """Arrows at tokens. arrows: (frame, arrow, 4) at frames."""
        count = len(self.with_arrows)
        names = tuple(f"{title} on {token}" for token in self.with_arrows)
        ink = np.tile(to_rgb(colours.colour("ink")), (count, 1))
        layers: list[Layer] = [
            Arrows(name, ink, names, arrows),
            common_panels.token_points("embedding", self.n, values=self.places),
        ]
        some = "" if count == self.n else f"on {count} of {self.n} tokens"
        return plane_panel(
            name,
            title,
            layers,
            self.force_limits,
            self.plane,
            join_notes(note, some, common_panels.token_note(self.n)),
            explanation=explanation,
        )

    def pair_panel(
        self, filled: np.ndarray | None, filled_note: str, cross: str
    ) -> Panel:
        """Pair sums over the class map. cross: meaning of a cross."""
        rgb = colours.class_colours(self.n)
        marked = self.marked
        sums = pair_sum_points(
            "pair_sums", self.n, self.pairs[marked], filled, values=self.pair_places
        )
        crosses = Points(
            "crosses",
            np.tile(to_rgb(colours.colour("ink")), (len(marked), 1)),
            sums.names,
            ("cross",) * len(marked),
            size=0.6 * sums.size,
            values=self.crosses,
        )
        class_names = tuple(f"class {c}" for c in range(self.n))
        layers: list[Layer] = [
            Map(
                "classes",
                colours.pale_colours(rgb, _MAP_OPACITY),
                class_names,
                lines=False,
                values=self.classes,
            ),
            sums,
            crosses,
        ]
        some = (
            ""
            if len(marked) == len(self.pairs)
            else f"{len(marked)} of {len(self.pairs)} pairs"
        )
        through = "background: plane through the mean" if self.dim > 2 else ""
        note = join_notes(filled_note, through, "×: " + cross, some)
        return plane_panel(
            "pair_sums",
            "pair sums",
            layers,
            self.pair_limits,
            self.pair_plane,
            note=note,
            origin=False,
            explanation=PAIR_SUMS_EXPLANATION,
        )


class ParticlePanels(PairPanels):
    """Panels of particles, and of any embedding of the numbers modulo N.

    Forces are those of the law that the settings say. Of a system from outside, the
    force is that at a frame alone, as it is not known how the system moves."""

    def __init__(self, recorded: RecordedRun) -> None:
        super().__init__(recorded)
        self.dense = shown_as_density(self.n)
        self.cells = min(recorded.side, math.isqrt(len(self.pairs)))
        if self.dense:
            self.marked = np.arange(len(self.pairs))
        self.fields = keep_last(self._fields)

    @functools.cached_property
    def system(self) -> ParticleSystem:
        return ParticleSystem(known_law(self.recorded.settings))

    @property
    def has_force(self) -> bool:
        """Whether the law is known and is one of as many particles and axes, and this
        process has the functions of the user that it may have."""
        settings = self.recorded.settings
        if not has_known_law(settings):
            return False
        if (settings.n, settings.dim) != (self.n, self.dim):
            return False
        try:
            for force in self.system.settings.forces:
                evaluate(force.expression, np.ones(1))
        except SettingsError:
            return False
        return True

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        return imperfect_pair_sums(self.embedding[frames])[:, self.marked]

    def classes(self, frames: np.ndarray) -> np.ndarray:
        points = np.broadcast_to(
            self.map_points(frames), (len(frames), self.recorded.side**2, self.dim)
        )
        basis = self.pair_plane.basis
        classes = [
            nearest_pair_classes(sums, self.residue, at, basis)
            for sums, at in zip(self.sums(frames), points, strict=True)
        ]
        return self.as_map(np.stack(classes))

    def _fields(self, frames: np.ndarray) -> np.ndarray:
        """The fields of the forces, (force, frame, token, axis)."""
        return self.system.fields(self.embedding[frames])

    def mean_force_arrows(self, frames: np.ndarray) -> np.ndarray:
        """Arrows of the mean force of two steps, (frame, arrow, 4)."""
        return self.arrows(frames, self.system.mean_force(self.embedding[frames]))

    def force_arrows(self, frames: np.ndarray) -> np.ndarray:
        """Arrows of the force, (frame, arrow, 4)."""
        return self.arrows(frames, self.system.force(self.embedding[frames])[0])

    def field_arrows(self, field: int, frames: np.ndarray) -> np.ndarray:
        """Arrows of one of the force fields, all with the same scale, (frame, arrow,
        4)."""
        fields = self.fields(frames)
        longest = np.linalg.norm(fields @ self.plane.basis.T, axis=-1).max(axis=(0, 2))
        return self.arrows(frames, fields[field], longest)

    # -------------------------------------------------------------- images of pair sums

    def cell_sums(self, frame: int, weights: np.ndarray | None = None) -> np.ndarray:
        """Number of pair sums in each cell of the plane at a frame, or sum of their
        weights: (row, column)."""
        at = np.array([frame])
        return cell_sums(
            self.pair_plane.places(self.sums(at))[0],
            self.pair_limits.at(at)[0],
            self.cells,
            weights,
        )

    def density(self, frames: np.ndarray) -> np.ndarray:
        """Decimal logarithm of 1 + number of pair sums in each cell: (frame, row,
        column)."""
        return np.stack([np.log10(1 + self.cell_sums(frame)) for frame in frames])

    def imperfect_fraction(self, frames: np.ndarray) -> np.ndarray:
        """Fraction of the pair sums in each cell that are grid imperfections, NaN in
        empty cells: (frame, row, column)."""
        fractions = []
        for frame in frames:
            imperfect = imperfect_pair_sums(self.embedding[frame])
            with np.errstate(invalid="ignore"):
                fractions.append(
                    self.cell_sums(frame, imperfect) / self.cell_sums(frame)
                )
        return np.stack(fractions)

    def image_panel(
        self, name: str, title: str, image: Image, note: str, explanation: str
    ) -> Panel:
        """An image over the plane of pair sums."""
        return plane_panel(
            name,
            title,
            [image],
            self.pair_limits,
            self.pair_plane,
            note=note,
            origin=False,
            explanation=explanation,
        )

    def cell_image(self, array: str, high: float, values: ArrayFunction) -> Image:
        """An image of cells from 0 to `high`; rows and columns are named by their
        positions."""
        centres = pixel_centres(self.pair_limits.at(np.array([-1])), self.cells)[0]
        columns = tuple(f"{x:.3g}" for x in centres[: self.cells, 0])
        rows = tuple(f"{y:.3g}" for y in centres[:: -self.cells, 1])
        return Image(array, 0.0, high, rows, columns, values=values)

    def density_panel(self) -> Panel:
        """Where pair sums are, with a colour scale up to the largest density of the
        last frame."""
        high = float(self.density(np.array([-1])).max())
        return self.image_panel(
            "pair_sums",
            "pair sums",
            self.cell_image("density", high, self.density),
            f"log10(1 + pair sums in a cell); {len(self.pairs)} pairs",
            PAIR_SUMS_EXPLANATION,
        )

    def imperfect_panel(self) -> Panel:
        """An image of the fraction of pair sums in each cell that are grid
        imperfections."""
        return self.image_panel(
            "imperfect_pair_sums",
            "imperfect pair sums",
            self.cell_image("imperfect_fraction", 1.0, self.imperfect_fraction),
            "fraction of the pair sums in a cell; grey: none",
            "Where the pair sums are whose nearest neighbour has another answer.",
        )

    def pair_panels(self) -> dict[str, PanelFactory]:
        """Panels of the pair sums: marks over the class map, or images if there are
        many."""
        if self.dense:
            return {
                "pair_sums": self.density_panel,
                "imperfect_pair_sums": self.imperfect_panel,
            }
        note = "background: nearest pair sum"
        return {"pair_sums": lambda: self.pair_panel(None, note, "grid imperfection")}

    def field_panel(self, field: int, name: str) -> Panel:
        """The field of one force of the law."""
        force = self.system.settings.forces[field]
        is_of_ca = force.strength in {item.strength for item in CA}
        strength = (
            "" if is_of_ca else f"strength {short_expression(str(force.strength))}"
        )
        return self.force_panel(
            name,
            name.replace("_", " "),
            functools.partial(self.field_arrows, field),
            join_notes(strength, "same scale as the other fields"),
            field_explanation(force),
        )

    def total_force_panel(self) -> Panel:
        """The force; of particles its mean over two steps."""
        scale = "arrows scaled in each frame"
        if not moves_as_particles(self.recorded.settings):
            return self.force_panel(
                "force", "force", self.force_arrows, scale, _OWN_FORCE_EXPLANATION
            )
        note = f"mean of two steps; {scale}"
        return self.force_panel(
            "force", "force", self.mean_force_arrows, note, _FORCE_EXPLANATION
        )

    def run_panels(self) -> RunPanels:
        panels: dict[str, PanelFactory] = {
            "embedding": self.embedding_panel,
            **self.pair_panels(),
        }
        others = common_panels.build_default_panels(self.recorded).panels
        if self.has_force:
            panels["force"] = self.total_force_panel
            for field, force in enumerate(self.system.settings.forces):
                is_taken = force.name in {*panels, *others, *_ARRAY_NAMES}
                name = f"{force.name}_field" if is_taken else force.name
                panels[name] = functools.partial(self.field_panel, field, name)
        return RunPanels({**panels, **others, **panels}, _MAIN_PANELS)


def build_particle_panels(recorded: RecordedRun) -> RunPanels:
    """Panels of CA's particles, and of a system from outside: those of
    `build_default_panels`, with the pair sums if its tokens are the numbers modulo their
    number, and the forces if its settings say its law."""
    is_of_numbers = "embedding" in recorded.data and recorded.has_residue_tokens
    if not (is_of_numbers and adds_numbers(recorded.data)):
        return common_panels.build_default_panels(recorded)
    return ParticlePanels(recorded).run_panels()
