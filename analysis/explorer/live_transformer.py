"""The tab in which a small transformer learns modular addition."""

from bokeh.document import Document

from analysis.explorer.codec import encode_layer
from analysis.explorer.live_figures import Chart, LivePanel
from analysis.explorer.live_page import LivePage
from analysis.explorer.live_run import LiveTransformer
from analysis.explorer.live_training import split_charts
from analysis.explorer.sliders import SMALL_TRANSFORMER, TransformerSliders
from analysis.panels.common_panels import token_points
from analysis.panels.scene import Image
from analysis.panels.style import StyleName

_PLANES = ("strongest frequency", "second frequency")


class TransformerPage(LivePage):
    """Sliders, buttons and figures of a transformer in training: its embeddings at two
    frequencies, and its logits."""

    note = (
        "One layer, 4 heads, 32 dimensions. The learning rate and the weight decay"
        " apply at once; other settings restart the run."
    )
    run: LiveTransformer

    def __init__(self, document: Document, style: StyleName = "screen") -> None:
        """Raises MissingPackage without torch."""
        gini = Chart(
            "Gini coefficient",
            {"gini": "of Fourier norms"},
            limits=(0, 1.05),
            note="1: one frequency",
        )
        charts = [*split_charts(("train", "test")), gini]
        run = LiveTransformer(SMALL_TRANSFORMER)
        super().__init__(document, TransformerSliders(), run, charts, style)

    def make_panels(self) -> list[LivePanel]:
        n = self.run.settings.n
        tokens = [token_points("embedding", n, joined=True)]
        self.planes = [
            LivePanel(f"frequency_{k + 1}", title, tokens, (-1.0, 1.0))
            for k, title in enumerate(_PLANES)
        ]
        rows, columns = (
            tuple(f"{letter} = {element}" for element in range(n)) for letter in "ab"
        )
        self.image = Image("logits", 0.0, 1.0, rows, columns)
        note = "rows: a, from 0 at the top; columns: b; relative to the largest"
        self.logits = LivePanel(
            "correct_logits",
            "correct logits",
            [self.image],
            (-0.5, n - 0.5),
            n,
            note,
            equal=False,
        )
        return [*self.planes, self.logits]

    def measures(self) -> dict[str, float]:
        return {**self.run.scores(), "gini": self.run.gini}

    def draw_panels(self) -> None:
        self.frequencies = []
        strongest = self.run.strongest_planes(len(_PLANES))
        for panel, (k, places) in zip(self.planes, strongest, strict=False):
            self.frequencies.append(k)
            panel.fit(places)
            panel.show(embedding=places)
        logits = self.run.correct_logits()
        levels = encode_layer(self.image, logits[None] / max(logits.max(), 1e-9))
        self.logits.show(logits=levels.reshape(logits.shape))

    def describe(self) -> None:
        for panel, k in zip(self.planes, self.frequencies, strict=False):
            panel.words.say(f"embedding at k = {k}")
        self.logits.words.say(self.run.accuracies)
