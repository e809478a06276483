"""The tab in which a small transformer learns modular addition."""

from functools import partial

import numpy as np

from analysis import panels
from analysis.explorer.live_figures import Chart, LivePanel, split_charts, token_panel
from analysis.explorer.live_page import LivePage
from analysis.explorer.live_run import LiveTransformer
from analysis.explorer.sliders import SMALL_TRANSFORMER, TransformerSliders
from analysis.panels.scene import Image

_GINI = Chart(
    "Gini coefficient",
    {"gini": "of Fourier norms"},
    limits=(0, 1.05),
    note="1: one frequency",
)


class TransformerPage(LivePage):
    """Sliders, buttons and figures of a transformer in training: its embeddings at two
    frequencies, and its logits."""

    note = (
        "One layer, 4 heads, 32 dimensions. The learning rate and the weight decay"
        " apply at once; other settings restart the run."
    )
    sliders = TransformerSliders
    chart_list = (*split_charts("train", "test"), _GINI)
    run: LiveTransformer

    def make_run(self) -> LiveTransformer:
        return LiveTransformer(SMALL_TRANSFORMER)

    def make_panels(self) -> list[LivePanel]:
        n = self.run.settings.n
        planes = [
            token_panel(
                f"frequency_{place + 1}",
                f"{rank} frequency",
                n,
                partial(self.plane_positions, place),
                partial(self.frequency_text, place),
                reach=1.0,
                explanation=panels.FREQUENCY_EXPLANATION,
            )
            for place, rank in enumerate(("strongest", "second"))
        ]
        rows = tuple(f"a = {k}" for k in range(n))
        columns = tuple(f"b = {k}" for k in range(n))
        logits = LivePanel(
            "correct_logits",
            "correct logits",
            [Image("logits", 0.0, 1.0, rows, columns)],
            self.logit_arrays,
            lambda: self.run.accuracies,
            (-0.5, n - 0.5),
            note="rows: a, from 0 at the top; columns: b; relative to the largest",
            equal=False,
            explanation=panels.CORRECT_LOGITS_EXPLANATION,
        )
        return [*planes, logits]

    def plane_positions(self, place: int) -> np.ndarray:
        """The embedding in the plane of one of the strongest frequencies."""
        return self.run.strongest_planes(place + 1)[place][1]

    def frequency_text(self, place: int) -> str:
        return f"embedding at k = {self.run.strongest_planes(place + 1)[place][0]}"

    def logit_arrays(self, panel: LivePanel) -> dict[str, np.ndarray]:
        """The correct logits, relative to the largest."""
        logits = self.run.correct_logits()
        return {"logits": logits / max(logits.max(), 1e-9)}

    def measures(self) -> dict[str, float]:
        return {**self.run.scores(), "gini": self.run.gini}
