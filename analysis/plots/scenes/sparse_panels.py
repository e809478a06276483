"""VC's 16 panels (VC section 2.3): what every layer of its transformer makes of tokens, positions and sentences.

    z(x, t) = N(E(x) + P(t)),  xi = V sum_t softmax_t(z_t . q / sqrt d) z_t,  zeta = transform(xi),  p = softmax(E zeta)

Circles are positions that count, squares the others, and hollow marks those of token 0. Sentences have one colour for
each prefix, similar for prefixes that are permutations of each other, and a square, circle, triangle, diamond or cross
for the class of the right answer. All values are dimensionless.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from analysis.plots.drawing import colours
from analysis.plots.scenes.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    build_default_panels,
    join_notes,
    metric_panels,
    plane_panel,
    scalar_panels,
    token_points,
)
from analysis.plots.scenes.probe_sequences import ProbeSequences, make_probe_sequences
from analysis.plots.scenes.recorded_weights import NetworkPanels, batch_slices
from analysis.plots.scenes.scene import Arrows, Image, Layer, LayerArrays, Map, Panel, Points
from analysis.plots.scenes.sparse_arrays import (
    SparseActivations,
    map_dtype,
    normalisation_radius,
    output_map_numbers,
    probability_level_names,
    probability_palette,
    transform_map_numbers,
)
from analysis.structures.projection import PanelLimits, Projection, fit_projection, pixel_centres
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.parameters import Weights
from dynamics.networks.threads import single_torch_thread

CLASS_SHAPES = ("square", "circle", "triangle", "diamond", "cross")

SIGNS = {"square": "■", "circle": "●", "triangle": "▲", "diamond": "◆", "cross": "✖"}

FRAMES_AT_ONCE = 128
MOST_MARKS = 1200
"""Marks of a panel of tokens at positions; of more tokens some are shown, evenly."""


class SparsePanels(NetworkPanels):
    """The panels of one run of VC's network whose weights were recorded."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.recorded, self.network = recorded, clustering_head_of(recorded.data)
        self.settings = self.network.settings
        self.sentences: ProbeSequences = make_probe_sequences(self.settings)
        self.tokens = torch.from_numpy(self.sentences.tokens)
        self.plane, self.box = functools.cache(self._plane), functools.cache(self._box)
        most = max(1, MOST_MARKS // self.settings.length)
        self.shown = np.unique(np.linspace(0, self.settings.rows - 1, min(self.settings.rows, most)).astype(np.int64))

    # ------------------------------------------------------------------------------------------- arrays

    def points(self, frames: np.ndarray, name: str) -> np.ndarray:
        """An array of `Seen` at frames, in all its axes."""
        return self.each(frames, [name])[name]

    @torch.no_grad()
    def each(self, frames: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Arrays of `Seen` at frames, some frames at a time."""
        if not names:
            return {}
        s = self.settings
        size = len(self.tokens) * s.length * (s.rows + 2) + (s.length * s.rows + s.hidden) * s.dim
        size += len(self.tokens) * (s.hidden + s.rows)
        shown, found = torch.from_numpy(self.shown), []
        with single_torch_thread():  # a frame is too little work to share out
            for portion in batch_slices(len(frames), size):
                seen = SparseActivations(self.network, self.at(frames[portion]), self.tokens, shown)
                found.append({name: getattr(seen, name).numpy() for name in names})
        return {name: np.concatenate([part[name] for part in found]) for name in names}

    @torch.no_grad()
    def look(self, frames: np.ndarray, names: Sequence[str]) -> LayerArrays:
        """See `Scene.look`."""
        names = list(dict.fromkeys(names))
        found: dict[str, np.ndarray] = {}
        direct = [name for name in names if name not in MAPS and name != "query"]
        for name, values in self.each(frames, direct).items():
            found[name] = values if name in AS_THEY_ARE else self.plane(name).places(values)
        if "query" in names:
            found["query"] = self.query(frames)
        for name in names:
            if name in MAPS:
                found[name] = self.map(frames, name)
        return found

    def query(self, frames: np.ndarray) -> np.ndarray:
        """An arrow from the origin along the query, (frame, 1, 4)."""
        plane = self.plane("normalised_sums")
        tip = plane._replace(heights=None).places(self.query_scale * self.at(frames)["query"][:, None].numpy())
        return np.concatenate([np.zeros_like(tip), tip], axis=-1)

    def map(self, frames: np.ndarray, name: str) -> np.ndarray:
        """Numbers of the level lines under points, (frame, row, column)."""
        numbers, upon = MAPS[name]
        side, plane = self.recorded.side, self.plane(upon)
        places = pixel_centres(self.box(upon), side)
        found = np.empty((len(frames), len(places)), map_dtype(self.settings.rows))
        with single_torch_thread():
            for row, frame in enumerate(frames):
                chosen = self.at(np.array([frame]))
                through = self.points(np.array([frame]), upon).mean(axis=1) if self.settings.dim > 2 else None
                points = torch.from_numpy(plane.points(places, through)).to(chosen["query"].dtype)
                for some in batch_slices(len(places), self.settings.hidden + self.settings.rows):
                    found[row, some] = numbers(self.network, chosen, points[:, some])[0]
        return found.reshape(len(frames), side, side)

    # ----------------------------------------------------------------------------- planes, limits, scales

    def _plane(self, name: str) -> Projection:
        """Where the points of a panel are seen, from the last frame."""
        points = self.points(np.array([len(self.recorded.steps) - 1]), name)[0]
        return fit_projection(points, self.recorded.axes, self.ranks(name))

    def ranks(self, name: str) -> np.ndarray | None:
        """What spreads points of one axis upwards."""
        if name in AT_POSITIONS:
            return np.repeat(np.arange(self.settings.length), len(self.shown))
        return self.sentences.prefix if name in OF_SENTENCES else None

    def _box(self, name: str) -> PanelLimits:
        """The limits of the points of a panel."""
        places = self.plane(name).places(self.points(self.recorded.looked_at, name))
        return self.recorded.box(places, square=self.settings.dim > 1)

    @functools.cached_property
    def query_scale(self) -> float:
        """How much of its length the query is drawn at, so that it fits beside normalised vectors; that of a run that
        diverged may leave the panel."""
        lengths = self.weights["query"].norm(dim=-1)
        longest = float(lengths.max())
        if self.recorded.diverged:
            longest = min(longest, 10 * float(lengths[0]))
        return min(1.0, 1.25 * normalisation_radius(self.settings) / longest) if longest > 0 else 1.0

    @property
    def query_outside(self) -> str:
        """In how many frames the query's head is outside the panel, in words."""
        heads = self.query(np.arange(len(self.recorded.steps)))[..., 2:]
        box = self.round
        outside = (np.abs(heads) > box.x[1]).any(axis=(1, 2)).mean()
        return "" if outside == 0 else f"it leaves in {outside:.1%} of frames"

    @functools.cached_property
    def round(self) -> PanelLimits:
        """The limits that hold everything normalised."""
        reach = 1.3 * normalisation_radius(self.settings)
        return PanelLimits((-reach, reach), (-reach, reach))

    # ------------------------------------------------------------------------------------------- layers

    def marks_at_positions(self, array: str) -> Points:
        """Tokens at positions."""
        s, shown = self.settings, self.shown
        rgb = np.repeat(colours.class_colours(s.length), len(shown), axis=0)
        names = tuple(f"token {token} at {position}" for position in range(s.length) for token in shown)
        shapes = tuple(np.repeat(self.position_shapes, len(shown)).tolist())
        size = 0.8 if len(names) <= 100 else 0.5
        return Points(array, rgb, names, shapes, np.tile(shown != 0, s.length), size=size)

    @property
    def position_shapes(self) -> list[str]:
        counting = set(self.settings.counting)
        return ["circle" if position in counting else "square" for position in range(self.settings.length)]

    def marks_of_sentences(self, array: str) -> Points:
        each = self.sentences
        shapes = tuple(CLASS_SHAPES[one % len(CLASS_SHAPES)] for one in each.classes)
        names = tuple(f"{name}, class {one}" for name, one in zip(each.names, each.classes, strict=True))
        return Points(array, self.sentence_colours, names, shapes, size=0.8)

    @functools.cached_property
    def sentence_colours(self) -> np.ndarray:
        return colours.prefix_colours(self.sentences.multiset)[self.sentences.prefix]

    def marks_of_units(self, array: str) -> Points:
        """Hidden units, coloured by the direction of their receptors at the end, alike in both panels."""
        last = self.plane("receptors")._replace(heights=None)
        x, y = last.places(self.points(np.array([len(self.recorded.steps) - 1]), "receptors"))[0].T
        names = tuple(f"unit {unit}" for unit in range(self.settings.hidden))
        size = 0.8 if self.settings.hidden <= 64 else 0.5
        return Points(array, colours.angle_colours(np.arctan2(y, x)), names, size=size)

    # ------------------------------------------------------------------------------------------- panels

    def plot(
        self, name: str, title: str, layers: list[Layer], upon: str = "", box: PanelLimits | None = None, **more
    ) -> Panel:
        upon = upon or name
        return plane_panel(name, title, layers, box or self.box(upon), self.plane(upon), **more)

    def token_embeddings(self) -> Panel:
        rgb = colours.class_colours(self.settings.rows)
        marks = replace(token_points("token_embeddings", self.settings.rows), colours=rgb)
        return self.plot("token_embeddings", "token embeddings E(x)", [marks])

    def position_embeddings(self) -> Panel:
        rgb, names = colours.class_colours(self.settings.length), tuple(map(str, range(self.settings.length)))
        few = len(names) <= 40
        marks = Points("position_embeddings", rgb, names, tuple(self.position_shapes), size=1.2, labelled=few)
        return self.plot("position_embeddings", "position embeddings P(t)", [marks], note="circles count")

    def sums(self) -> Panel:
        note = join_notes("hollow: token 0", self.left_out)
        return self.plot("sums", "sums E(x) + P(t)", [self.marks_at_positions("sums")], note=note)

    @property
    def left_out(self) -> str:
        """Which tokens are not shown."""
        return "" if len(self.shown) == self.settings.rows else f"{len(self.shown)} of {self.settings.rows} tokens"

    def normalised_sums(self) -> Panel:
        arrow = Arrows("query", np.array([[0.75, 0.05, 0.1]]), ("query",))
        scale = "" if self.query_scale == 1 else f"query at {self.query_scale:.2g} of its length"
        scale = join_notes(scale, self.query_outside)
        layers: list[Layer] = [self.marks_at_positions("normalised_sums"), arrow]
        return self.plot("normalised_sums", "normalised sums z, query", layers, box=self.round, note=scale)

    def attention(self) -> Panel:
        high = self.highest("attention")
        names = tuple(map(str, range(self.settings.length)))
        image = Image("attention", 0.0, high, self.sentences.names, names, self.sentence_colours)
        return self.image("attention", "attention", image, "position", join_notes(image.scale, self.recorded.some))

    def highest(self, name: str) -> float:
        """The largest number of a matrix at any frame, some frames at a time."""
        frames = self.recorded.looked_at
        some = (frames[start : start + FRAMES_AT_ONCE] for start in range(0, len(frames), FRAMES_AT_ONCE))
        return max(float(self.points(each, name).max()) for each in some)

    def image(self, name: str, title: str, image: Image, x_label: str, note: str) -> Panel:
        x, y = (-0.5, len(image.columns) - 0.5), (-0.5, len(image.rows) - 0.5)
        return Panel(name, title, (image,), x, y, x_label, "sentence", equal=False, note=note)

    def values(self) -> Panel:
        return self.plot("values", "values V z", [self.marks_at_positions("values")], note=self.left_out)

    def sequence_embeddings(self) -> Panel:
        marks = self.marks_of_sentences("sequence_embeddings")
        return self.plot("sequence_embeddings", "sequence embeddings ξ", [marks], note=self.shape_note)

    @property
    def shape_note(self) -> str:
        """Which classes the shapes of sentences are."""
        classes = np.unique(self.sentences.classes).tolist()
        if classes[-1] >= len(CLASS_SHAPES):
            return f"shapes: class modulo {len(CLASS_SHAPES)}"
        return "class " + ", ".join(f"{SIGNS[CLASS_SHAPES[one]]} {one}" for one in classes)

    def transform_map(self) -> Panel:
        layers: list[Layer] = [self.levels("transform_map"), self.marks_of_sentences("sequence_embeddings")]
        return self.plot(
            "transform_map", "transform p(y | ξ)", layers, "sequence_embeddings", origin=False, note=self.through
        )

    def levels(self, array: str) -> Map:
        return Map(array, probability_palette(self.settings.rows), probability_level_names(self.settings.rows))

    @property
    def through(self) -> str:
        return "through the mean" if self.settings.dim > 2 else ""

    def normalised_sequences(self) -> Panel:
        marks: list[Layer] = [self.marks_of_sentences("normalised_sequences")]
        if self.settings.dim != 2:
            return self.plot("normalised_sequences", "normalised ξ", marks, box=self.round)
        units = self.marks_of_units("boundaries")
        marks.append(
            replace(
                units,
                colours=np.tile(colours.pale_colours(units.colours, 0.7), (2, 1)),
                names=2 * units.names,
                size=0.45,
            )
        )
        note = "outside: where units switch"
        return self.plot("normalised_sequences", "normalised ξ", marks, box=self.round, note=note)

    def receptors(self) -> Panel:
        return self.plot("receptors", "receptors w", [self.marks_of_units("receptors")])

    def assemblers(self) -> Panel:
        return self.plot("assemblers", "assemblers u", [self.marks_of_units("assemblers")], note="colours of receptors")

    def transforms(self) -> Panel:
        return self.plot("transforms", "transforms ζ", [self.marks_of_sentences("transforms")])

    def output_map(self) -> Panel:
        layers: list[Layer] = [self.levels("output_map"), self.marks_of_sentences("transforms")]
        return self.plot("output_map", "output p(y | ζ)", layers, "transforms", origin=False, note=self.through)

    def output_probabilities(self) -> Panel:
        names = tuple(map(str, range(self.settings.rows)))
        high = self.highest("output_probabilities")
        image = Image("output_probabilities", 0.0, high, self.sentences.names, names, self.sentence_colours)
        return self.image(
            "output_probabilities", "output probabilities", image, "class", join_notes(image.scale, self.recorded.some)
        )


AS_THEY_ARE = ("attention", "output_probabilities", "boundaries")
MAPS: Mapping[str, tuple[Callable[[ClusteringHead, Weights, torch.Tensor], np.ndarray], str]] = {
    "transform_map": (transform_map_numbers, "sequence_embeddings"),
    "output_map": (output_map_numbers, "transforms"),
}
"""Maps: what their numbers are, and upon which points' plane."""
AT_POSITIONS = ("sums", "normalised_sums", "values")
OF_SENTENCES = ("sequence_embeddings", "normalised_sequences", "transforms")

PANELS = (
    "token_embeddings", "position_embeddings", "sums", "normalised_sums",
    "attention", "values", "sequence_embeddings", "transform_map",
    "normalised_sequences", "receptors", "assemblers", "transforms",
    "output_map", "output_probabilities",
)  # fmt: skip
"""In VC's order, but for loss and accuracy, which end it."""


def build_sparse_panels(recorded: RecordedRun) -> RunPanels:
    """VC's panels, and norms by layer; without recorded weights those of the metrics alone."""
    network = clustering_head_of(recorded.data)
    if any(name not in recorded.data for name in network.variables):
        return build_default_panels(recorded)
    made: Any = SparsePanels(recorded)
    makers: dict[str, PanelFactory] = {name: getattr(made, name) for name in PANELS}
    return RunPanels({**makers, **metric_panels(recorded), **scalar_panels(recorded)}, made.look)
