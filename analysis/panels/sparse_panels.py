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
from collections.abc import Sequence
from dataclasses import replace
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
    plane_panel,
)
from analysis.panels.limits import PanelLimits, pixel_centres
from analysis.panels.probe_sequences import make_probe_sequences
from analysis.panels.recorded_weights import NetworkPanels, batch_slices
from analysis.panels.scene import (
    Arrows,
    Image,
    Layer,
    LayerArrays,
    Map,
    Panel,
    Points,
)
from analysis.structures.projection import Projection, fit_projection
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.threads import single_torch_thread

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
        self.recorded, self.network = recorded, clustering_head_of(recorded.data)
        self.settings = self.network.settings
        self.sequences = make_probe_sequences(self.settings)
        self.tokens = torch.from_numpy(self.sequences.tokens)
        self.radius = normalised_length(self.settings.norm, self.settings.dim)
        self.plane = functools.cache(self._plane)
        self.limits = functools.cache(self._limits)
        rows, most = self.settings.rows, max(1, _MAX_MARKERS // self.settings.length)
        self.drawn_tokens = np.unique(
            np.linspace(0, rows - 1, min(rows, most)).astype(np.int64)
        )
        self.last = np.array([len(self.recorded.steps) - 1])

    # --------------------------------------------------------------------------- arrays

    def points(self, frames: np.ndarray, name: str) -> np.ndarray:
        """An array of `SparseActivations` at frames, with all its axes."""
        return self.activations(frames, [name])[name]

    @torch.no_grad()
    def activations(
        self, frames: np.ndarray, names: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Arrays of `SparseActivations` at frames, computed in batches of frames."""
        if not names:
            return {}
        s = self.settings
        size = (
            len(self.tokens) * s.length * (s.rows + 2)
            + (s.length * s.rows + s.hidden) * s.dim
        )
        size += len(self.tokens) * (s.hidden + s.rows)
        drawn_tokens, result = torch.from_numpy(self.drawn_tokens), []
        with single_torch_thread():  # a frame is too little work for several threads
            for batch in batch_slices(len(frames), size):
                sparseactivations = sparse_arrays.SparseActivations(
                    self.network,
                    self.weights_at(frames[batch]),
                    self.tokens,
                    drawn_tokens,
                )
                result.append(
                    {name: getattr(sparseactivations, name).numpy() for name in names}
                )
        return {name: np.concatenate([part[name] for part in result]) for name in names}

    @torch.no_grad()
    def compute_arrays(self, frames: np.ndarray, names: Sequence[str]) -> LayerArrays:
        """See `Scene.compute_arrays`."""
        names = list(dict.fromkeys(names))
        result: dict[str, np.ndarray] = {}
        direct = [
            name for name in names if name not in _POINTS_OF_MAP and name != "query"
        ]
        for name, values in self.activations(frames, direct).items():
            result[name] = (
                values if name in _NOT_PROJECTED else self.plane(name).places(values)
            )
        if "query" in names:
            result["query"] = self.query_arrow(frames)
        return result | {
            name: self.class_map(frames, name)
            for name in names
            if name in _POINTS_OF_MAP
        }

    def query_arrow(self, frames: np.ndarray) -> np.ndarray:
        """An arrow from the origin along the query, (frame, 1, 4)."""
        plane = self.plane("normalised_sums")._replace(heights=None)
        tip = plane.places(
            self.query_scale * self.weights_at(frames)["query"][:, None].numpy()
        )
        return np.concatenate([np.zeros_like(tip), tip], axis=-1)

    def class_map(self, frames: np.ndarray, name: str) -> np.ndarray:
        """Numbers of class and probability level under points, (frame, row, column)."""
        points_name = _POINTS_OF_MAP[name]
        side, plane = self.recorded.side, self.plane(points_name)
        boxes = np.broadcast_to(
            self.limits(points_name).at(frames), (len(frames), 2, 2)
        )
        result = np.empty(
            (len(frames), side**2), sparse_arrays.map_dtype(self.settings.rows)
        )
        with single_torch_thread():
            for row, frame in enumerate(frames[:, None]):
                weights = self.weights_at(frame)
                mean = None
                if self.settings.dim > 2:
                    mean = self.points(frame, points_name).mean(axis=1)
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
        positions = np.arange(self.settings.length)
        ranks = {
            "positions": np.repeat(positions, len(self.drawn_tokens)),
            "sequences": self.sequences.prefix,
        }.get(_KINDS.get(name, ""))
        return fit_projection(
            self.points(self.last, name)[0], self.recorded.axes, ranks
        )

    def _limits(self, name: str) -> PanelLimits:
        """Limits of the points of a panel."""
        places = self.plane(name).places(self.points(self.recorded.limit_frames, name))
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
        s, drawn_tokens = self.settings, self.drawn_tokens
        rgb = np.repeat(colours.class_colours(s.length), len(drawn_tokens), axis=0)
        names = tuple(
            f"token {token} at {position}"
            for position in range(s.length)
            for token in drawn_tokens
        )
        shapes = tuple(np.repeat(self.position_shapes, len(drawn_tokens)).tolist())
        size = 0.8 if len(names) <= 100 else 0.5
        return Points(
            array, rgb, names, shapes, np.tile(drawn_tokens != 0, s.length), size=size
        )

    @property
    def position_shapes(self) -> list[str]:
        relevant = set(self.settings.counting)
        return [
            "circle" if position in relevant else "square"
            for position in range(self.settings.length)
        ]

    def sequence_points(self, array: str) -> Points:
        """Markers of sequences."""
        item, shapes = self.sequences, list(_CLASS_SIGNS)
        names = tuple(
            f"{name}, class {one}"
            for name, one in zip(item.names, item.classes, strict=True)
        )
        class_shapes = tuple(shapes[one % len(shapes)] for one in item.classes)
        return Points(array, self.sequence_colours, names, class_shapes, size=0.8)

    @functools.cached_property
    def sequence_colours(self) -> np.ndarray:
        return colours.prefix_colours(self.sequences.multiset)[self.sequences.prefix]

    def unit_points(self, array: str) -> Points:
        """Markers of hidden units, coloured by the direction of their receptors at the
        end, in all panels."""
        plane = self.plane("receptors")._replace(heights=None)
        return common_panels.unit_points(
            array, plane.places(self.points(self.last, "receptors"))[0]
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
        rgb = colours.class_colours(self.settings.rows)
        markers = replace(
            common_panels.token_points("token_embeddings", self.settings.rows),
            colours=rgb,
        )
        return self._plot("token_embeddings", "token embeddings E(x)", [markers])

    def position_embeddings(self) -> Panel:
        rgb = colours.class_colours(self.settings.length)
        names = tuple(map(str, range(self.settings.length)))
        few = len(names) <= 40
        markers = Points(
            "position_embeddings",
            rgb,
            names,
            tuple(self.position_shapes),
            size=1.2,
            labelled=few,
        )
        note = "circles: relevant positions"
        return self._plot(
            "position_embeddings", "position embeddings P(t)", [markers], note=note
        )

    def points_panel(self, name: str) -> Panel:
        """A panel of the table `_POINT_PANELS`."""
        title, kind = _POINT_PANELS[name]
        markers, note = {
            "positions": (self.position_points, self.shown_note),
            "sequences": (self.sequence_points, self.shape_note),
            "units": (self.unit_points, _UNIT_NOTE),
        }[kind]
        return self._plot(name, title, [markers(name)], note=note)

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
        arrow = Arrows("query", np.array([[0.75, 0.05, 0.1]]), ("query",))
        layers: list[Layer] = [self.position_points("normalised_sums"), arrow]
        limits = self.normalised_limits
        note = join_notes("arrow: query", self.query_note, self.shown_note)
        return self._plot(
            "normalised_sums", "normalised sums z", layers, limits=limits, note=note
        )

    def attention(self) -> Panel:
        return self._image("attention", "attention", "position", self.settings.length)

    def _image(self, name: str, title: str, x_label: str, columns: int) -> Panel:
        """A matrix (sequence, column) with one colour scale for all frames."""
        frames, batch = self.recorded.limit_frames, _FRAMES_PER_BATCH
        high = max(
            float(self.points(frames[k : k + batch], name).max())
            for k in range(0, len(frames), batch)
        )
        rows, column_names = self.sequences.names, tuple(map(str, range(columns)))
        image = Image(name, 0.0, high, rows, column_names, self.sequence_colours)
        x, y = (-0.5, columns - 0.5), (-0.5, len(rows) - 0.5)
        note = join_notes("left strip: colour of the prefix", self.recorded.limits_note)
        return Panel(
            name, title, (image,), x, y, x_label, "sequence", equal=False, note=note
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
        return self._map_panel("transform_map", "transform p(y | ξ)")

    def output_map(self) -> Panel:
        return self._map_panel("output_map", "output p(y | ζ)")

    def _map_panel(self, name: str, title: str) -> Panel:
        note = join_notes(
            _LEVEL_NOTE,
            "plane through the mean" if self.settings.dim > 2 else "",
            self.shape_note,
        )
        points, classes = _POINTS_OF_MAP[name], self.settings.rows
        levels = sparse_arrays.probability_level_names(classes)
        class_map = Map(name, sparse_arrays.probability_palette(classes), levels)
        layers: list[Layer] = [class_map, self.sequence_points(points)]
        return self._plot(name, title, layers, points, origin=False, note=note)

    def normalised_sequences(self) -> Panel:
        layers: list[Layer] = [self.sequence_points("normalised_sequences")]
        note = "colour: prefix"
        if self.settings.dim == 2:
            units = self.unit_points("boundaries")
            rgb = np.tile(colours.pale_colours(units.colours, 0.7), (2, 1))
            layers.append(replace(units, colours=rgb, names=2 * units.names, size=0.45))
            note = join_notes(note, "ring: where hidden units switch on")
        return self._plot(
            "normalised_sequences",
            "normalised ξ",
            layers,
            limits=self.normalised_limits,
            note=note,
        )

    def output_probabilities(self) -> Panel:
        return self._image(
            "output_probabilities", "output probabilities", "class", self.settings.rows
        )


_UNIT_NOTE = "hidden units; colour: direction of the receptor at the end"
_NOT_PROJECTED = ("attention", "output_probabilities", "boundaries")
_POINTS_OF_MAP = {"transform_map": "sequence_embeddings", "output_map": "transforms"}
"""The points in whose plane a map is drawn: xi, of p(y|xi), and zeta, of p(y|zeta) =
softmax(E zeta)."""
_POINT_PANELS = {
    "sums": ("sums E(x) + P(t)", "positions"),
    "values": ("values V z", "positions"),
    "sequence_embeddings": ("sequence embeddings ξ", "sequences"),
    "transforms": ("transforms ζ", "sequences"),
    "receptors": ("receptors w", "units"),
    "assemblers": ("assemblers u", "units"),
}
"""Title and kind of points of the panels that show only these."""
_KINDS = {name: kind for name, (_, kind) in _POINT_PANELS.items()} | {
    "normalised_sums": "positions",
    "normalised_sequences": "sequences",
}

_PANELS = (
    "token_embeddings",
    "position_embeddings",
    "sums",
    "normalised_sums",
    "attention",
    "values",
    "sequence_embeddings",
    "transform_map",
    "normalised_sequences",
    "receptors",
    "assemblers",
    "transforms",
    "output_map",
    "output_probabilities",
)
"""In VC's order; loss and accuracy follow."""


def build_sparse_panels(recorded: RecordedRun) -> RunPanels:
    """VC's panels, and norms by layer; without recorded weights, only those of the
    metrics."""
    network = clustering_head_of(recorded.data)
    if any(name not in recorded.data for name in network.variables):
        return common_panels.build_default_panels(recorded)
    panels = SparsePanels(recorded)
    factories: dict[str, PanelFactory] = {
        name: functools.partial(panels.points_panel, name)
        if name in _POINT_PANELS
        else getattr(panels, name)
        for name in _PANELS
    }
    factories |= {
        **common_panels.metric_panels(recorded),
        **common_panels.scalar_panels(recorded),
    }
    return RunPanels(factories, panels.compute_arrays)
