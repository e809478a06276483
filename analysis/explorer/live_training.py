"""The tab in which a small network learns modular addition, beside particles that start
at its initial embedding."""

import numpy as np
from bokeh.document import Document
from matplotlib.colors import to_rgb

from analysis.explorer.live_figures import Chart, LivePanel, pair_sum_points
from analysis.explorer.live_page import LivePage
from analysis.explorer.live_run import EPOCHS_PER_STEP, TrainingRun, embedding_structure
from analysis.explorer.sliders import TrainingSliders
from analysis.panels.colours import class_colours, colour, pale_colours
from analysis.panels.common_panels import token_points
from analysis.panels.scene import Map, Points
from analysis.panels.style import StyleName
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum, training_pairs

_MAP_SIDE = 100
"""Pixels along a side of the class map."""


def split_charts(splits: tuple[str, str]) -> list[Chart]:
    """Charts of the loss and the accuracy of two splits."""
    accuracy = {f"{split}_right": split for split in splits}
    return [
        Chart("Loss", {split: split for split in splits}, log=True),
        Chart("Accuracy", accuracy, limits=(0, 1.05)),
    ]


class TrainingPage(LivePage):
    """Sliders, buttons and figures of CA's network in training and of particles beside
    it."""

    note = (
        "The learning rate and the weight decay apply at once; other settings restart"
        f" the run. Particles take one step per {EPOCHS_PER_STEP} epochs."
    )
    run: TrainingRun

    def __init__(self, document: Document, style: StyleName = "screen") -> None:
        """Raises MissingPackage without torch."""
        kinds = {"network": "network", "particles": "particles"}
        charts = [
            *split_charts(("train", "validation")),
            Chart("Grid imperfections", kinds),
        ]
        run = TrainingRun(ModularSettings())
        super().__init__(document, TrainingSliders(), run, charts, style)

    def _trained(self) -> np.ndarray:
        """Which pairs the network trains on, (pair,) bool."""
        settings, seed = self.run.settings, np.array([self.run.seed])
        return training_pairs(settings.n, settings.train_pairs, seed)[0]

    def panel_key(self) -> tuple[int, bytes]:
        return self.run.settings.n, self._trained().tobytes()

    def make_panels(self) -> list[LivePanel]:
        """Pair sums of the training split are filled."""
        n, count = self.run.settings.n, len(all_pairs(self.run.settings.n))
        names = tuple(f"predicted class {c}" for c in range(n))
        classes = Map("classes", pale_colours(class_colours(n)), names, lines=False)
        sums = pair_sum_points("sums", n, self._trained(), size=2.0)
        ink = np.tile(to_rgb(colour("ink")), (count, 1))
        wrong = Points(
            "wrong", ink, ("",) * count, ("cross",) * count, size=sums.size / 4
        )
        note = "background: predicted class; filled: training; hollow: validation; ×: wrong"
        tokens = [token_points("embedding", n, joined=True)]
        self.network = LivePanel("embedding", "network", tokens)
        self.map = LivePanel(
            "pair_sums",
            "class map",
            [classes, sums, wrong],
            (-6.0, 6.0),
            _MAP_SIDE,
            note,
        )
        self.particles = LivePanel("embedding", "particles", tokens)
        return [self.network, self.map, self.particles]

    # ------------------------------------------------------------------------ animation

    def measures(self) -> dict[str, float]:
        run = self.run
        x = {"network": run.embedding, "particles": run.particles.embedding}
        self.structures = {name: embedding_structure(x[name]) for name in x}
        counts = {name: self.structures[name].imperfections for name in x}
        return {**run.scores(), **counts}

    def draw_panels(self) -> None:
        x, y = self.run.embedding, self.run.particles.embedding
        self.network.fit(x)
        self.particles.fit(y)
        self.network.show(embedding=x)
        self.particles.show(embedding=y)
        pairs = all_pairs(self.run.settings.n)
        sums = x[pairs].sum(axis=1)
        self.map.fit(sums)
        ticks = (2 * np.arange(_MAP_SIDE) + 1 - _MAP_SIDE) / _MAP_SIDE * self.map.reach
        pixels = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        classes = self.run.classes(np.concatenate([pixels, sums]))
        map_classes, answers = np.split(classes, [len(pixels)])
        wrong = answers != modular_sum(pairs, self.run.settings.n)
        self.map.show(
            classes=map_classes.reshape(_MAP_SIDE, _MAP_SIDE),
            sums=sums,
            wrong=np.where(wrong[:, None], sums, np.nan),
        )

    def describe(self) -> None:
        step = self.run.particles.time
        self.network.words.say(self.structures["network"].words)
        self.particles.words.say(f"step {step}: {self.structures['particles'].words}")
        self.map.words.say(self.run.accuracies)
