"""Panels of the transformer (ZL, NA): embeddings in the planes of the strongest
frequencies, attention, correct logits, restricted and excluded loss.

The plane of a frequency k is that of the cosine and the sine component of the embedding at k in
the last frame, with orthonormal axes. Frequencies are in the order of their power in
the last logits (`analysis.progress_measures`), which only the task add has. Images show
at most 120 of the elements, evenly spaced. All values are dimensionless, losses in
nats."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import torch

from analysis import progress_measures
from analysis.panels import colours, common_panels
from analysis.panels.common_panels import (
    PanelFactory,
    RecordedRun,
    RunPanels,
    curve_panel,
    evenly_spaced_indices,
    join_notes,
)
from analysis.panels.recorded_weights import NetworkPanels, batch_slices
from analysis.panels.scene import Image, Panel, Points, Span
from dynamics.errors import TrajectoryError
from dynamics.networks.from_trajectory import transformer_of
from dynamics.tasks import operation_pairs, operation_splits

_MAIN_PANELS = (
    "frequency_1",
    "frequency_2",
    "attention",
    "correct_logits",
    "loss",
    "accuracy",
    "restricted_loss",
    "fourier_norms",
)
"""Of these, a network without attention has all others."""

FREQUENCY_EXPLANATION = (
    "The numbers in the plane of one frequency of the embedding. Where this frequency"
    " counts, they form a circle."
)

CORRECT_LOGITS_EXPLANATION = (
    "The score of the correct answer for every pair of numbers. It turns bright for all"
    " pairs once the network has found the rule."
)

_PLANES = 4
_MAX_ELEMENTS = 120

_MAX_MEASURED_FRAMES = 51
"""Largest number of frames in which losses of parts of the logits are computed."""

_MEASURE_WORK = 3e10
"""Largest work for them, which takes some seconds."""


def frequency_plane(embedding: np.ndarray, k: int) -> np.ndarray:
    """Orthonormal axes of the plane of a frequency k of the embedding (token, axis),
    nearest to its cosine and sine component: (axis, 2)."""
    angle = 2 * np.pi * k * np.arange(len(embedding)) / len(embedding)
    components = embedding.T @ np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    left, _, right = np.linalg.svd(components, full_matrices=False)
    return left @ right


class TransformerPanels(NetworkPanels):
    """Panels of a transformer whose weights were recorded."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.recorded = recorded
        self.network = transformer_of(recorded.data)
        self.n = self.network.settings.elements
        self.adds = self.network.settings.task == "add"
        self.elements = evenly_spaced_indices(self.n, _MAX_ELEMENTS)
        self.last = np.array([len(recorded.steps) - 1])
        self.places = functools.cache(self._places)

    def double_weights(self, frames: np.ndarray) -> dict[str, torch.Tensor]:
        return {
            name: values.double() for name, values in self.weights_at(frames).items()
        }

    # ---------------------------------------------------------------------- frequencies

    @functools.cached_property
    def powers(self) -> np.ndarray:
        """Fraction of the variance of the last logits in each frequency of a + b,
        (frequency,)."""
        logits = progress_measures.all_logits(
            self.network, self.double_weights(self.last)
        )
        return np.nan_to_num(progress_measures.sum_frequency_fractions(logits)[0])

    @functools.cached_property
    def strongest(self) -> np.ndarray:
        """Frequencies k in the order of their power, (plane,)."""
        return 1 + np.argsort(-self.powers, kind="stable")[:_PLANES]

    @functools.cached_property
    def embedding(self) -> np.ndarray:
        """Embeddings of a, without their mean, (frame, token, axis)."""
        x = self.recorded.embedding[:, : self.n]
        return x - x.mean(axis=1, keepdims=True)

    def _places(self, k: int) -> np.ndarray:
        """Embeddings in the plane of a frequency, (frame, token, 2)."""
        return self.embedding @ frequency_plane(self.embedding[-1], k)

    def frequency_panel(self, place: int) -> Panel:
        k = int(self.strongest[place])
        limits = self.recorded.limits(self.places(k)[self.recorded.limit_frames])
        names = tuple(map(str, range(self.n)))
        angle = 2 * np.pi * (k * np.arange(self.n) % self.n) / self.n
        points = Points(
            f"frequency_{place + 1}",
            colours.angle_colours(angle),
            names,
            size=1.0 if self.n < 60 else 0.6,
            values=lambda frames: self.places(k)[frames],
        )
        note = (
            f"{self.powers[k - 1]:.0%} of the logits' variance; colour: {k} a mod"
            f" {self.n}"
        )
        title = f"embedding at frequency {k}"
        return common_panels.plane_panel(
            f"frequency_{place + 1}",
            title,
            [points],
            limits,
            note=note,
            explanation=FREQUENCY_EXPLANATION,
        )

    def norms_panel(self) -> Panel:
        """Fourier norms of the embedding: those of the strongest frequencies, and the largest
        other one."""
        norms = progress_measures.fourier_norms(self.recorded.embedding[:, : self.n]).T
        others = np.setdiff1d(np.arange(len(norms)), self.strongest - 1)
        values = norms[self.strongest - 1]
        names = [f"k = {k}" for k in self.strongest]
        if len(others):
            values = np.vstack([values, norms[others].max(axis=0)])
            names = [*names, "largest other"]
        return curve_panel(
            self.recorded,
            "fourier_norms",
            "Fourier norms",
            values,
            names,
            log=False,
            note="of the embedding",
            explanation="How strong each frequency of the embedding is. A few remain.",
        )

    # --------------------------------------------------------------------------- images

    @functools.cached_property
    def image_pairs(self) -> torch.Tensor:
        """Pairs (a, b) of elements that images show, (pair, 2)."""
        return torch.cartesian_prod(
            torch.from_numpy(self.elements), torch.from_numpy(self.elements)
        )

    @functools.cached_property
    def by_difference(self) -> bool:
        """Whether correct logits are arranged by a + b and a - b, which determine a and
        b if N is odd."""
        return self.adds and self.n % 2 == 1

    @torch.no_grad()
    def attention(self, frames: np.ndarray) -> np.ndarray:
        """Attention of the last position to a for each pair, the heads side by side,
        (frame, row, column)."""
        heads = self.network.settings.heads
        size = len(self.elements)
        result = np.full(
            (len(frames), *self.tiles * (size + 1) - 1), np.nan, np.float32
        )
        for batch in batch_slices(len(frames), 4 * size * size * heads):
            values = self.network.attention(
                self.weights_at(frames[batch]), self.image_pairs
            )[..., 0]
            for head in range(heads):
                row, column = (size + 1) * np.array(divmod(head, self.tiles[1]))
                tile = values[..., head].unflatten(-1, (size, size)).numpy()
                result[batch, row : row + size, column : column + size] = tile
        return result

    @property
    def tiles(self) -> np.ndarray:
        """Rows and columns of heads in the image of attention."""
        columns = math.ceil(math.sqrt(self.network.settings.heads))
        return np.array([-(-self.network.settings.heads // columns), columns])

    def attention_panel(self) -> Panel:
        settings = self.network.settings
        names = [*map(str, self.elements), ""]
        row_tiles, column_tiles = self.tiles.tolist()
        rows = tuple((names * row_tiles)[:-1])
        columns = tuple((names * column_tiles)[:-1])
        low = 1 - settings.attention_rate
        image = Image("attention", low, 1.0, rows, columns, values=self.attention)
        heads = "" if settings.heads == 1 else f"; {settings.heads} heads, by rows"
        return self._image_panel(
            "attention",
            "attention to a",
            image,
            "b",
            "a",
            f"of the last position{heads}",
            "How much weight each token gets. Look for positions that are ignored.",
        )

    @torch.no_grad()
    def correct_logits(self, frames: np.ndarray) -> np.ndarray:
        """Correct logits by a + b and a - b, or by a and b, (frame, row, column)."""
        pairs = self.image_pairs
        if self.by_difference:
            half = (self.n + 1) // 2
            sums = pairs.sum(dim=-1)
            differences = pairs[:, 0] - pairs[:, 1]
            pairs = torch.stack([sums, differences], dim=-1) * half % self.n
        result = []
        target = self.network.target(pairs)[:, None]
        for batch in batch_slices(
            len(frames), len(pairs) * (self.n + 2 * self.network.settings.width)
        ):
            logits = self.network.logits(self.weights_at(frames[batch]), pairs)
            correct = target.expand(len(logits), -1, -1)
            values = torch.take_along_dim(logits, correct, -1)
            result.append(values[..., 0].numpy())
        return np.concatenate(result).reshape(len(frames), len(self.elements), -1)

    def correct_panel(self) -> Panel:
        """The correct logits, with a colour scale from 0 to the largest of the last
        frame."""
        values = self.correct_logits(self.last)
        names = tuple(map(str, self.elements))
        low = min(0.0, float(values.min()))
        high = max(float(values.max()), low + 1e-6)
        image = Image(
            "correct_logits", low, high, names, names, values=self.correct_logits
        )
        x, y = ("a \N{MINUS SIGN} b", "a + b") if self.by_difference else ("b", "a")
        return self._image_panel(
            "correct_logits",
            "correct logit",
            image,
            x,
            y,
            "",
            CORRECT_LOGITS_EXPLANATION,
        )

    def _image_panel(
        self,
        name: str,
        title: str,
        image: Image,
        x_label: str,
        y_label: str,
        note: str,
        explanation: str,
    ) -> Panel:
        some = ""
        if len(self.elements) < self.n:
            some = f"{len(self.elements)} of {self.n} elements"
        return Panel(
            name,
            title,
            (image,),
            (-0.5, len(image.columns) - 0.5),
            (-0.5, len(image.rows) - 0.5),
            x_label,
            y_label,
            equal=False,
            note=join_notes(note, some),
            explanation=explanation,
        )

    # --------------------------------------------------------------------------- losses

    @functools.cached_property
    def measured_frames(self) -> np.ndarray:
        """Frames in which losses of parts of the logits are computed."""
        sizes = self.network.settings
        work = self.n**2 * sizes.width * (sizes.heads * sizes.head_width + self.n)
        return evenly_spaced_indices(
            len(self.recorded.steps),
            int(min(_MAX_MEASURED_FRAMES, 2 + _MEASURE_WORK / work)),
        )

    def restricted_panel(self) -> Panel:
        """Restricted and excluded loss, computed in some frames."""
        settings = self.network.settings
        keys = progress_measures.key_frequencies(self.powers)
        pairs = operation_pairs(settings)[
            operation_splits(settings, np.array([self.recorded.seed]))[0][0]
        ]
        losses = []
        for frame in self.measured_frames:
            logits = progress_measures.all_logits(
                self.network, self.double_weights(np.array([frame]))
            )
            losses.append(
                [
                    progress_measures.restricted_loss(logits, keys)[0],
                    progress_measures.excluded_loss(logits, keys, pairs)[0],
                ]
            )
        every = np.arange(len(self.recorded.steps))
        values = np.stack(
            [
                np.interp(every, self.measured_frames, item)
                for item in np.transpose(losses)
            ]
        )
        names = ["restricted, all pairs", "excluded, training pairs"]
        few = "" if len(every) == len(losses) else f"in {len(losses)} frames"
        title = "loss of parts"
        return curve_panel(
            self.recorded,
            "restricted_loss",
            title,
            values,
            names,
            log=True,
            note=join_notes("of the logits", few),
            unit="nats",
            explanation="The loss with only the part of the logits that adds by circles,"
            " or without it: it tells the rule from what is known by heart.",
        )

    @functools.cached_property
    def phases(self) -> tuple[Span, ...]:
        """The bands of the phases of grokking."""
        try:
            phases = progress_measures.grokking_phases(self.recorded.data).isel(run=0)
        except TrajectoryError:  # too few frames, or all pairs are trained on
            return ()
        spans = []
        for phase in colours.PHASES:
            steps = phases.sel(phase=phase)
            begin = float(steps["begin"]) / self.recorded.epoch_steps
            end = float(steps["end"]) / self.recorded.epoch_steps
            if end > begin:
                spans.append(Span(begin, end, colours.colour(phase), phase))
        return tuple(spans)

    def with_phases(self, factory: PanelFactory) -> Panel:
        """A panel of curves with a band for each phase; that of the loss names them."""
        panel = factory()
        ends = ", ".join(f"{span.name} to {span.end:.0f}" for span in self.phases)
        note = join_notes(panel.note, ends) if panel.name == "loss" else panel.note
        return replace(panel, spans=self.phases, note=note)

    # --------------------------------------------------------------------------- panels

    def run_panels(self) -> RunPanels:
        others = common_panels.build_default_panels(self.recorded).panels
        panels: dict[str, PanelFactory] = {}
        if self.adds:
            for place in range(min(_PLANES, self.n // 2)):
                panels[f"frequency_{place + 1}"] = functools.partial(
                    self.frequency_panel, place
                )
        main = [name for name in _MAIN_PANELS if name != "attention"]
        if self.network.settings.attention_rate > 0:
            panels["attention"] = self.attention_panel
            main = list(_MAIN_PANELS)
        panels["correct_logits"] = self.correct_panel
        curves: dict[str, PanelFactory] = {
            name: others[name] for name in ("loss", "accuracy")
        }
        if self.adds:
            curves |= {
                "restricted_loss": self.restricted_panel,
                "fourier_norms": self.norms_panel,
            }
        for name, factory in curves.items():
            panels[name] = functools.partial(self.with_phases, factory)
        rest = {name: others[name] for name in others if name not in panels}
        return RunPanels({**panels, **rest}, main)


def build_transformer_panels(recorded: RecordedRun) -> RunPanels:
    """Panels of the transformer; without recorded weights, only those of the
    metrics."""
    network = transformer_of(recorded.data)
    if any(name not in recorded.data for name in network.variables):
        return common_panels.build_default_panels(recorded)
    return TransformerPanels(recorded).run_panels()
