"""The tab in which a small transformer learns modular addition."""

import numpy as np
from bokeh.document import Document

from analysis.explorer.codec import encode_layer
from analysis.explorer.controls import titled_plot
from analysis.explorer.live_figures import LiveChart, LivePlane, LiveTokens
from analysis.explorer.live_network import NetworkPage
from analysis.explorer.live_run import LiveTransformer
from analysis.explorer.sliders import (
    SMALL_TRANSFORMER,
    TRANSFORMER_SLIDER_STEPS,
    TransformerSliders,
)
from analysis.explorer.theme import FAINT, text_div
from analysis.panels.scene import Image

_REACH = 1.0
_PLANES = ("strongest frequency", "second frequency")
_GINI = "gini"


class TransformerPage(NetworkPage):
    """Sliders, buttons and figures of a transformer in training: its embeddings at two
    frequencies, and its logits."""

    splits, slider_steps = ("train", "test"), TRANSFORMER_SLIDER_STEPS
    note = (
        "One layer, 4 heads, 32 dimensions. The learning rate and the weight decay"
        " apply at once; other settings restart the run."
    )
    run: LiveTransformer

    def __init__(self, document: Document) -> None:
        """Raises MissingPackage without torch."""
        self.drawn = 0
        chart = LiveChart(
            "Gini coefficient over epochs", (_GINI,), "epoch", limits=(0, 1.05)
        )
        legend = text_div("of Fourier norms; 1: one frequency", colour=FAINT)
        gini = titled_plot("Gini coefficient", chart.figure, legend)
        super().__init__(
            document,
            TransformerSliders(),
            LiveTransformer(SMALL_TRANSFORMER),
            (*_PLANES, "map"),
            chart,
            gini,
        )

    def prepare(self) -> None:
        """Make the figures for N tokens, unless they exist."""
        if self.drawn == (n := self.run.settings.n):
            return
        self.drawn = n
        self.planes = {name: LivePlane(_REACH, name) for name in _PLANES}
        self.tokens = {
            name: LiveTokens(plane, n) for name, plane in self.planes.items()
        }
        rows, columns = (
            tuple(f"{letter} = {element}" for element in range(n)) for letter in "ab"
        )
        self.image = Image("logits", 0.0, 1.0, rows, columns)
        self.map = LivePlane(1.0, "correct logits")
        self.logits = self.map.map(self.image, n)
        embeddings = [
            titled_plot(name.capitalize(), plane.figure, self.words[name].layout)
            for name, plane in self.planes.items()
        ]
        logits = titled_plot(
            "Correct logits", self.map.figure, self.words["map"].layout
        )
        legend = (
            "Rows: a, from 0 at the top; columns: b. Dark: 0 or less; light: the"
            " largest logit."
        )
        logits.children.append(text_div(legend, 12, FAINT, (4, 0, 0, 32)))
        self.stages.children = [*embeddings, logits]

    def measures(self) -> list[float]:
        return [self.run.gini]

    def draw_planes(self) -> None:
        self.frequencies = {}
        for name, (k, places) in zip(
            _PLANES, self.run.strongest_planes(len(_PLANES)), strict=False
        ):
            self.frequencies[name] = k
            self.planes[name].fit(places)
            self.tokens[name].show(places)
        logits = self.run.correct_logits()
        image = np.clip(logits / max(logits.max(), 1e-9), 0, 1)
        self.logits.show(encode_layer(self.image, image[None]).reshape(logits.shape))

    def describe_planes(self) -> None:
        for name, k in self.frequencies.items():
            self.words[name].say(f"embedding at k = {k}")
        self.words["map"].say(self.accuracies)
