"""VC's 16 panels (VC section 2.3): activations of its transformer for tokens, positions
and sequences, layer by layer.

    z(x, t) = N(E(x) + P(t)),  xi = V sum_t softmax_t(z_t . q / sqrt d) z_t,  zeta = transform(xi),  p = softmax(E zeta)

Circles are relevant positions, squares the others, and hollow markers those of token 0.
Sequences have one colour for each prefix, similar for prefixes that are permutations of
each other; the shape of their marker is the correct class. VC calls the input weights
of the MLP receptors and the output weights assemblers. All values are dimensionless.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from analysis.linearization.normalisation import normalised_length
from analysis.panels import colours, common_panels, sparse_arrays
from analysis.panels.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    join_notes,
    keep_last,
    plane_panel,
)
from analysis.panels.limits import PanelLimits, pixel_centres
from analysis.panels.probe_sequences import make_probe_sequences
from analysis.panels.recorded_weights import NetworkPanels, batch_slices
from analysis.panels.scene import Arrows, Image, Layer, Map, Panel, Points
from analysis.structures.projection import Projection, fit_projection
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.threads import single_torch_thread

_MAIN_PANELS = (
    "attention",
    "transform_map",
    "position_embeddings",
    "normalised_sums",
    "values",
    "normalised_sequences",
    "receptors",
    "output_map",
    "loss",
    "accuracy",
)

_CLASS_SIGNS = {
    "square": "■",
    "circle": "●",
    "triangle": "▲",
    "diamond": "◆",
    "cross": "✖",
}
"""Markers that are assigned to the classes in turn, and the same markers as
characters."""

_LEVEL_NOTE = "lines: probability " + ", ".join(
    map(str, sparse_arrays.PROBABILITY_LEVELS)
)
_FRAMES_PER_BATCH = 128
_MAX_MARKERS = 1200
"""Largest number of markers in a panel of tokens at positions; of more tokens, evenly
spaced ones are shown."""


class SparsePanels(NetworkPanels):
    """Panels of one run of VC's network whose weights were recorded."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.recorded = recorded
        self.network = clustering_head_of(recorded.data)
        self.settings = self.network.settings
        self.sequences = make_probe_sequences(self.settings)
        self.tokens = torch.from_numpy(self.sequences.tokens)
        self.radius = normalised_length(self.settings.norm, self.settings.dim)
        self.plane = functools.cache(self._plane)
        self.limits = functools.cache(self._limits)
        self.activations = keep_last(self._activations)
        rows = self.settings.rows
        most = max(1, _MAX_MARKERS // self.settings.length)
        self.drawn_tokens = np.unique(
            np.linspace(0, rows - 1, min(rows, most)).astype(np.int64)
        )
        self.last = np.array([len(self.recorded.steps) - 1])

    # --------------------------------------------------------------------------- arrays

    @torch.no_grad()
    def points(self, name: str, frames: np.ndarray) -> np.ndarray:
        """An array of `SparseActivations` at frames, with all its axes, computed in
        batches of frames."""
        s = self.settings
        size = (
            len(self.tokens) * s.length * (s.rows + 2)
            + (s.length * s.rows + s.hidden) * s.dim
        )
        size += len(self.tokens) * (s.hidden + s.rows)
        parts = []
        with single_torch_thread():  # a frame is too little work for several threads
            for batch in batch_slices(len(frames), size):
                activations = self.activations(frames[batch])
                parts.append(getattr(activations, name).numpy())
        return np.concatenate(parts)

    def _activations(self, frames: np.ndarray) -> sparse_arrays.SparseActivations:
        return sparse_arrays.SparseActivations(
            self.network,
            self.weights_at(frames),
            self.tokens,
            torch.from_numpy(self.drawn_tokens),
        )

    def places(self, name: str, frames: np.ndarray) -> np.ndarray:
        """An array of `SparseActivations` in the plane of its panel, (frame, point,
        2)."""
        return self.plane(name).places(self.points(name, frames))

    def query_arrow(self, frames: np.ndarray) -> np.ndarray:
        """An arrow from the origin along the query, (frame, 1, 4)."""
        plane = self.plane("normalised_sums")._replace(heights=None)
        tip = plane.places(
            self.query_scale * self.weights_at(frames)["query"][:, None].numpy()
        )
        return np.concatenate([np.zeros_like(tip), tip], axis=-1)

    @torch.no_grad()
    def class_map(self, name: str, frames: np.ndarray) -> np.ndarray:
        """Numbers of class and probability level under points, (frame, row, column)."""
        points_name = _POINTS_OF_MAP[name]
        side = self.recorded.side
        plane = self.plane(points_name)
        boxes = np.broadcast_to(
            self.limits(points_name).at(frames), (len(frames), 2, 2)
        )
        result = np.empty(
            (len(frames), side**2), sparse_arrays.map_dtype(self.settings.rows)
        )
        means = self.points(points_name, frames).mean(axis=1)
        with single_torch_thread():
            for row, frame in enumerate(frames[:, None]):
                weights = self.weights_at(frame)
                mean = means[[row]] if self.settings.dim > 2 else None
                centres = plane.points(pixel_centres(boxes[[row]], side), mean)
                points = torch.from_numpy(centres).to(weights["query"].dtype)
                for batch in batch_slices(
                    side**2, self.settings.hidden + self.settings.rows
                ):
                    zeta = points[:, batch]
                    if name == "transform_map":
                        zeta = self.network.transform(weights, zeta)
                    logits = zeta @ weights["embedding"].mT
                    result[row, batch] = sparse_arrays.class_level_numbers(logits)[0]
        return result.reshape(len(frames), side, side)

    # ----------------------------------------------------------- planes, limits, scales

    def _plane(self, name: str) -> Projection:
        """Projection of the points of a panel, fitted to the last frame; on one axis,
        with heights."""
        ranks = None
        if name in _POINTS_OF_POSITIONS:
            positions = np.arange(self.settings.length)
            ranks = np.repeat(positions, len(self.drawn_tokens))
        elif name in _POINTS_OF_SEQUENCES:
            ranks = self.sequences.prefix
        return fit_projection(
            self.points(name, self.last)[0], self.recorded.axes, ranks
        )

    def _limits(self, name: str) -> PanelLimits:
        """Limits of the points of a panel."""
        places = self.places(name, self.recorded.limit_frames)
        return self.recorded.limits(places, square=self.settings.dim > 1)

    @functools.cached_property
    def query_scale(self) -> float:
        """Scale at which the longest query is as large as normalised vectors; in a
        diverged run it may be larger."""
        lengths = self.weights["query"].norm(dim=-1)
        longest = float(lengths.max())
        if self.recorded.diverged:
            longest = min(longest, 10 * float(lengths[0]))
        return min(1.0, 1.25 * self.radius / longest) if longest > 0 else 1.0

    @property
    def query_note(self) -> str:
        """Scale of the query, and the fraction of frames in which its tip is outside
        the panel."""
        tips = self.query_arrow(np.arange(len(self.recorded.steps)))[..., 2:]
        outside = (np.abs(tips) > self.normalised_limits.x[1]).any(axis=(1, 2)).mean()
        return join_notes(
            (
                ""
                if self.query_scale == 1
                else f"query at {self.query_scale:.2g} of its length"
            ),
            f"query outside in {outside:.1%} of frames" if outside else "",
        )

    @functools.cached_property
    def normalised_limits(self) -> PanelLimits:
        """Limits of normalised vectors."""
        reach = 1.3 * self.radius
        return PanelLimits((-reach, reach), (-reach, reach))

    # --------------------------------------------------------------------------- layers

    def position_points(self, array: str) -> Points:
        """Markers of tokens at positions."""
        s = self.settings
        drawn_tokens = self.drawn_tokens
        rgb = np.repeat(colours.class_colours(s.length), len(drawn_tokens), axis=0)
        names = tuple(
            f"token {token} at {position}"
            for position in range(s.length)
            for token in drawn_tokens
        )
        shapes = tuple(np.repeat(self.position_shapes, len(drawn_tokens)).tolist())
        return Points(
            array,
            rgb,
            names,
            shapes,
            np.tile(drawn_tokens != 0, s.length),
            size=0.8 if len(names) <= 100 else 0.5,
            values=functools.partial(self.places, array),
        )

    @property
    def position_shapes(self) -> list[str]:
        relevant = set(self.settings.counting)
        return [
            "circle" if position in relevant else "square"
            for position in range(self.settings.length)
        ]

    @property
    def relevance_borders(self) -> tuple[float, ...]:
        """Places between a relevant position and one that is not."""
        shapes = self.position_shapes
        return tuple(
            position + 0.5
            for position, (shape, following) in enumerate(pairwise(shapes))
            if shape != following
        )

    def sequence_points(self, array: str) -> Points:
        """Markers of sequences."""
        classes = self.sequences.classes
        shapes = list(_CLASS_SIGNS)
        names = tuple(
            f"{name}, class {one}"
            for name, one in zip(self.sequences.names, classes, strict=True)
        )
        return Points(
            array,
            self.sequence_colours,
            names,
            tuple(shapes[one % len(shapes)] for one in classes),
            size=0.8,
            values=functools.partial(self.places, array),
        )

    @functools.cached_property
    def sequence_colours(self) -> np.ndarray:
        return colours.prefix_colours(self.sequences.multiset)[self.sequences.prefix]

    def unit_points(self, array: str) -> Points:
        """Markers of hidden units, coloured by the direction of their receptors at the
        end, in all panels."""
        plane = self.plane("receptors")._replace(heights=None)
        return common_panels.unit_points(
            array,
            plane.places(self.points("receptors", self.last))[0],
            functools.partial(self.places, array),
        )

    # --------------------------------------------------------------------------- panels

    def _plot(
        self,
        name: str,
        title: str,
        layers: list[Layer],
        points: str = "",
        limits: PanelLimits | None = None,
        **more: Any,
    ) -> Panel:
        """A panel in the plane and limits of some points, by default those of its own
        name."""
        points = points or name
        return plane_panel(
            name,
            title,
            layers,
            limits or self.limits(points),
            self.plane(points),
            **more,
        )

    def token_embeddings(self) -> Panel:
        name = "token_embeddings"
        markers = common_panels.token_points(
            name, self.settings.rows, values=functools.partial(self.places, name)
        )
        rgb = colours.class_colours(self.settings.rows)
        return self._plot(
            name,
            "token embeddings E(x)",
            [replace(markers, colours=rgb)],
            explanation="The vector that the network learns for each token.",
        )

    def position_embeddings(self) -> Panel:
        name = "position_embeddings"
        markers = Points(
            name,
            colours.class_colours(self.settings.length),
            tuple(map(str, range(self.settings.length))),
            tuple(self.position_shapes),
            size=1.2,
            labelled=self.settings.length <= 40,
            values=functools.partial(self.places, name),
        )
        return self._plot(
            name,
            "position embeddings P(t)",
            [markers],
            note="circles: relevant positions",
            explanation="The vector that the network learns for each position of the"
            " sequence.",
        )

    def sums(self) -> Panel:
        return self._plot(
            "sums",
            "sums E(x) + P(t)",
            [self.position_points("sums")],
            note=self.shown_note,
            explanation="Token and position embedding added: what the network knows of a"
            " token at a position.",
        )

    def values(self) -> Panel:
        return self._plot(
            "values",
            "values V z",
            [self.position_points("values")],
            note=self.shown_note,
            explanation="What a token contributes to the sequence embedding when it is"
            " attended to.",
        )

    def sequence_embeddings(self) -> Panel:
        return self._plot(
            "sequence_embeddings",
            "sequence embeddings ξ",
            [self.sequence_points("sequence_embeddings")],
            note=self.shape_note,
            explanation="One point for each sequence, in the colour of its kind."
            " Sequences that are treated alike form a cluster.",
        )

    def transforms(self) -> Panel:
        return self._plot(
            "transforms",
            "transforms ζ",
            [self.sequence_points("transforms")],
            note=self.shape_note,
            explanation="The sequences after the feed-forward layer. Their direction"
            " decides the answer.",
        )

    def receptors(self) -> Panel:
        return self._plot(
            "receptors",
            "receptors w",
            [self.unit_points("receptors")],
            note=_UNIT_NOTE,
            explanation="Input weights of the neurons: the directions to which they"
            " respond.",
        )

    def assemblers(self) -> Panel:
        return self._plot(
            "assemblers",
            "assemblers u",
            [self.unit_points("assemblers")],
            note=_UNIT_NOTE,
            explanation="Output weights of the neurons: where they push a sequence.",
        )

    @property
    def shown_note(self) -> str:
        """Meaning of the markers of tokens at positions, and how many tokens are shown,
        where these are not all."""
        some = (
            ""
            if len(self.drawn_tokens) == self.settings.rows
            else f"{len(self.drawn_tokens)} of {self.settings.rows} tokens"
        )
        return join_notes("colour: position", "hollow marks: token 0", some)

    def normalised_sums(self) -> Panel:
        rgb = np.array([[0.75, 0.05, 0.1]])
        arrow = Arrows("query", rgb, ("query",), self.query_arrow)
        return self._plot(
            "normalised_sums",
            "normalised sums z",
            [self.position_points("normalised_sums"), arrow],
            limits=self.normalised_limits,
            note=join_notes("arrow: query", self.query_note, self.shown_note),
            explanation="The same sums at unit size; the arrow is the query, and tokens"
            " along it get attention.",
        )

    def attention(self) -> Panel:
        return self._image(
            "attention",
            "attention",
            "position",
            self.settings.length,
            "How much weight each token gets. Look for positions that are ignored.",
            self.relevance_borders,
        )

    def _image(
        self,
        name: str,
        title: str,
        x_label: str,
        columns: int,
        explanation: str,
        borders: tuple[float, ...] = (),
    ) -> Panel:
        """A matrix (sequence, column) with one colour scale for all frames, and lines
        between relevant and other positions."""
        frames = self.recorded.limit_frames
        batch = _FRAMES_PER_BATCH
        high = max(
            float(self.points(name, frames[k : k + batch]).max())
            for k in range(0, len(frames), batch)
        )
        rows = self.sequences.names
        image = Image(
            name,
            0.0,
            high,
            rows,
            tuple(map(str, range(columns))),
            self.sequence_colours,
            functools.partial(self.points, name),
            borders,
        )
        return Panel(
            name,
            title,
            (image,),
            (-0.5, columns - 0.5),
            (-0.5, len(rows) - 0.5),
            x_label,
            "sequence",
            equal=False,
            note=join_notes(
                "left strip: colour of the prefix",
                "white line: edge of the relevant positions" if borders else "",
                self.recorded.limits_note,
            ),
            explanation=explanation,
        )

    @property
    def shape_note(self) -> str:
        """Meaning of shapes and colours of sequences."""
        classes = np.unique(self.sequences.classes).tolist()
        signs = list(_CLASS_SIGNS.values())
        if classes[-1] >= len(signs):
            return f"shapes: class modulo {len(signs)}; colour: prefix"
        shapes = ", ".join(f"{signs[one]} {one}" for one in classes)
        return f"class {shapes}; colour: prefix"

    def transform_map(self) -> Panel:
        return self._map_panel(
            "transform_map",
            "transform p(y | ξ)",
            "The answer of the network for a sequence at each place of the plane. A"
            " spike occurs where a cluster crosses a border.",
        )

    def output_map(self) -> Panel:
        return self._map_panel(
            "output_map",
            "output p(y | ζ)",
            "The answer at each place of the plane after the feed-forward layer.",
        )

    def _map_panel(self, name: str, title: str, explanation: str) -> Panel:
        note = join_notes(
            _LEVEL_NOTE,
            "plane through the mean" if self.settings.dim > 2 else "",
            self.shape_note,
        )
        points = _POINTS_OF_MAP[name]
        classes = self.settings.rows
        class_map = Map(
            name,
            sparse_arrays.probability_palette(classes),
            sparse_arrays.probability_level_names(classes),
            values=functools.partial(self.class_map, name),
        )
        return self._plot(
            name,
            title,
            [class_map, self.sequence_points(points)],
            points,
            origin=False,
            note=note,
            explanation=explanation,
        )

    def normalised_sequences(self) -> Panel:
        layers: list[Layer] = [self.sequence_points("normalised_sequences")]
        note = "colour: prefix"
        if self.settings.dim == 2:
            units = self.unit_points("boundaries")
            boundaries = replace(
                units,
                colours=np.tile(colours.pale_colours(units.colours, 0.7), (2, 1)),
                names=2 * units.names,
                size=0.45,
                values=functools.partial(self.points, "boundaries"),
            )
            layers.append(boundaries)
            change = "switch on"
            if self.settings.activation == "tanh":
                change = "change sign"
            note = join_notes(note, f"ring: where hidden units {change}")
        return self._plot(
            "normalised_sequences",
            "normalised ξ",
            layers,
            limits=self.normalised_limits,
            note=note,
            explanation="The directions of the sequences, with the directions at which"
            " neurons switch.",
        )

    def output_probabilities(self) -> Panel:
        return self._image(
            "output_probabilities",
            "output probabilities",
            "class",
            self.settings.rows,
            "The probability of each answer, for every sequence.",
        )


_UNIT_NOTE = "hidden units; colour: direction of the receptor at the end"
_POINTS_OF_MAP = {"transform_map": "sequence_embeddings", "output_map": "transforms"}
"""The points in whose plane a map is drawn: xi, of p(y|xi), and zeta, of p(y|zeta) =
softmax(E zeta)."""
_POINTS_OF_POSITIONS = ("sums", "normalised_sums", "values")
_POINTS_OF_SEQUENCES = ("sequence_embeddings", "normalised_sequences", "transforms")


def build_sparse_panels(recorded: RecordedRun) -> RunPanels:
    """VC's panels, and norms by layer; without recorded weights, only those of the
    metrics."""
    network = clustering_head_of(recorded.data)
    if any(name not in recorded.data for name in network.variables):
        return common_panels.build_default_panels(recorded)
    panels = SparsePanels(recorded)
    factories: dict[str, PanelFactory] = {  # in VC's order
        "token_embeddings": panels.token_embeddings,
        "position_embeddings": panels.position_embeddings,
        "sums": panels.sums,
        "normalised_sums": panels.normalised_sums,
        "attention": panels.attention,
        "values": panels.values,
        "sequence_embeddings": panels.sequence_embeddings,
        "transform_map": panels.transform_map,
        "normalised_sequences": panels.normalised_sequences,
        "receptors": panels.receptors,
        "assemblers": panels.assemblers,
        "transforms": panels.transforms,
        "output_map": panels.output_map,
        "output_probabilities": panels.output_probabilities,
    }
    factories |= common_panels.metric_panels(recorded)
    factories |= common_panels.scalar_panels(recorded)
    return RunPanels(factories, _MAIN_PANELS)
