"""The tab in which a small network learns modular addition, beside particles that start
at its initial embedding."""

import dataclasses

import numpy as np
from bokeh.document import Document

from analysis.explorer.controls import curve_legend, titled_plot
from analysis.explorer.live_figures import (
    LiveChart,
    LivePlane,
    LiveTokens,
    pair_sum_points,
)
from analysis.explorer.live_network import NetworkPage
from analysis.explorer.live_run import EPOCHS_PER_STEP, TrainingRun, embedding_structure
from analysis.explorer.sliders import TRAINING_SLIDER_STEPS, TrainingSliders
from analysis.explorer.theme import FAINT, text_div
from analysis.panels.colours import class_colours, pale_colours
from analysis.panels.scene import Map
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum, training_pairs

_MAP_SIDE = 100
"""Pixels along a side of the class map."""


_REACH = 3.0
_KINDS = ("network", "particles")


class TrainingPage(NetworkPage):
    """Sliders, buttons and figures of CA's network in training and of particles beside
    it."""

    splits, slider_steps = ("train", "validation"), TRAINING_SLIDER_STEPS
    note = (
        "The learning rate and the weight decay apply at once; other settings restart"
        f" the run. Particles take one step per {EPOCHS_PER_STEP} epochs."
    )
    run: TrainingRun

    def __init__(self, document: Document) -> None:
        """Raises MissingPackage without torch."""
        self.drawn = (0, b"")
        chart = LiveChart("grid imperfections over epochs", _KINDS, "epoch")
        imperfections = titled_plot(
            "Grid imperfections", chart.figure, *curve_legend(_KINDS)
        )
        run = TrainingRun(ModularSettings())
        super().__init__(
            document, TrainingSliders(), run, (*_KINDS, "map"), chart, imperfections
        )

    def begin(self) -> None:
        super().begin()
        for stage in (self.network, self.particles):
            stage.set_reach(_REACH)

    def prepare(self) -> None:
        """Make the figures for N tokens, unless they exist; pair sums of the training
        split are filled."""
        n = self.run.settings.n
        trained = training_pairs(
            n, self.run.settings.train_pairs, np.array([self.run.seed])
        )[0]
        if self.drawn == (key := (n, trained.tobytes())):
            return
        self.drawn = key
        self.network = LivePlane(_REACH, "embedding of the network")
        self.particles = LivePlane(_REACH, "particles")
        self.map = LivePlane(1.0, "class map and pair sums")
        self.tokens = {
            "network": LiveTokens(self.network, n),
            "particles": LiveTokens(self.particles, n),
        }
        pixels = Map(
            "classes",
            pale_colours(class_colours(n)),
            tuple(f"predicted class {c}" for c in range(n)),
            lines=False,
        )
        self.classes = self.map.map(pixels, _MAP_SIDE)
        layer = pair_sum_points(n, filled=trained)
        layer = dataclasses.replace(layer, size=2 * layer.size)
        self.sums = self.map.points(layer)
        shapes, colours = ("cross",) * len(trained), np.full((len(trained), 3), 0.1)
        small = 0.25 * layer.size  # the marks' colours remain visible
        wrong = dataclasses.replace(
            layer, shapes=shapes, colours=colours, filled=None, size=small
        )
        self.crosses = self.map.points(wrong)
        legend = (
            "Background: predicted class. Marks: pairs i + j; filled: training, hollow:"
            " validation, cross: wrong."
        )
        class_map = titled_plot("Class map", self.map.figure, self.words["map"].layout)
        class_map.children.append(text_div(legend, 12, FAINT, (4, 0, 0, 32)))
        self.stages.children = [
            titled_plot("Network", self.network.figure, self.words["network"].layout),
            class_map,
            titled_plot(
                "Particles", self.particles.figure, self.words["particles"].layout
            ),
        ]

    # ------------------------------------------------------------------------ animation

    def measures(self) -> list[float]:
        return [
            embedding_structure(x).imperfections
            for x in (self.run.embedding, self.run.particles.embedding)
        ]

    def draw_planes(self) -> None:
        x, y = self.run.embedding, self.run.particles.embedding
        self.network.fit(x)
        self.particles.fit(y)
        self.tokens["network"].show(x)
        self.tokens["particles"].show(y)
        self.draw_map(x)

    def draw_map(self, embedding: np.ndarray) -> None:
        """The plane of pair sums, scaled to unit size."""
        n, reach = self.run.settings.n, 2 * self.network.reach
        pairs = all_pairs(n)
        sums = embedding[pairs[:, 0]] + embedding[pairs[:, 1]]
        ticks = reach * (2 * np.arange(_MAP_SIDE) + 1 - _MAP_SIDE) / _MAP_SIDE
        pixels = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        classes = self.run.classes(np.concatenate([pixels, sums]))
        wrong = classes[len(pixels) :] != modular_sum(pairs, n)
        self.classes.show(classes[: len(pixels)].reshape(_MAP_SIDE, _MAP_SIDE))
        self.sums.show(sums / reach)
        self.crosses.show(np.where(wrong[:, None], sums / reach, np.nan))

    def describe_planes(self) -> None:
        run = self.run
        self.words["network"].say(embedding_structure(run.embedding).words)
        structure = embedding_structure(run.particles.embedding)
        self.words["particles"].say(
            f"step {run.particles.state.step}: {structure.words}"
        )
        self.words["map"].say(self.accuracies)
