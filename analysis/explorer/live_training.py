"""The tab in which a small network learns modular addition, beside particles that start at its initial embedding."""

import dataclasses
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.models import Column, Row, UIElement

from analysis.explorer.controls import LabelledSlider, StatusLine, control_column, curve_legend, titled_plot
from analysis.explorer.live_figures import LiveChart, LivePlane, LiveTokens, pair_sum_points
from analysis.explorer.live_run import EPOCHS_PER_STEP, History, TrainingRun, embedding_structure
from analysis.explorer.player import CHARTS_EVERY, TEXT_EVERY, LivePage, Player, advance_within_time
from analysis.explorer.sliders import TRAINING_SLIDER_STEPS, TrainingSliders
from analysis.explorer.theme import FAINT, STACKED, parameter_select, text_div
from analysis.explorer.view_code import live_view_code
from analysis.plots.drawing.colours import class_colours, pale_colours
from analysis.plots.scenes.scene import Map
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum, training_pairs

_MAP_SIDE = 100
"""Pixels along a side of the class map."""


_REACH = 3.0
_SPLITS = ("train", "validation")
_KINDS = ("network", "particles")


class TrainingPage(LivePage):
    """Sliders, buttons and figures of a network in training and of particles beside it."""

    def __init__(self, document: Document) -> None:
        """Raises MissingPackage without torch."""
        self.settings = TrainingSliders()
        self.run = TrainingRun(ModularSettings())
        right = [f"{split}_right" for split in _SPLITS]
        self.history = History("x", *_SPLITS, *right, *_KINDS)
        self.player = Player(document, self.frame, self.step)
        self.frames, self.drawn = 0, (0, b"")
        self.words = {name: StatusLine() for name in (*_KINDS, "map")}
        self.words["clock"] = StatusLine("clock", margin_bottom="12px")
        self.charts = [
            LiveChart("loss over epochs", _SPLITS, "epoch", log=True),
            LiveChart("accuracy over epochs", right, "epoch", limits=(0, 1.05)),
            LiveChart("grid imperfections over epochs", _KINDS, "epoch"),
        ]
        self.stages = Row(sizing_mode="stretch_width", stylesheets=[STACKED], margin=(0, 0, 22, 0))
        self.settings.param.watch(self.turned, list(TRAINING_SLIDER_STEPS))
        self.begin()
        plots = Column(self.stages, self.lower(), sizing_mode="stretch_width")
        self.layout = Row(self.controls(), plots, sizing_mode="stretch_width", stylesheets=[STACKED])

    def controls(self) -> UIElement:
        dials = [LabelledSlider(self.settings, name, step).layout for name, step in TRAINING_SLIDER_STEPS.items()]
        note = text_div("The learning rate and the weight decay apply at once; other settings restart the run. "
                    f"Particles take one step per {EPOCHS_PER_STEP} epochs.", 12, FAINT)  # fmt: skip
        buttons, pace = self.player.buttons(self.begin), parameter_select(self.settings, "pace")
        return control_column(buttons, self.words["clock"].layout, *dials, pace, note)

    def lower(self) -> UIElement:
        """Curves and their legend."""
        loss, accuracy, imperfections = (chart.figure for chart in self.charts)
        return Row(
            titled_plot("Loss (log)", loss, *curve_legend(_SPLITS)),
            titled_plot("Accuracy", accuracy, *curve_legend(_SPLITS)),
            titled_plot("Grid imperfections", imperfections, *curve_legend(_KINDS)), sizing_mode="stretch_width",
            stylesheets=[STACKED],
        )  # fmt: skip

    def begin(self) -> None:
        """Restart with the current settings."""
        self.run.restart()
        self.history.clear()
        self.frames = 0
        n = self.run.settings.n
        trained = training_pairs(n, self.run.settings.train_pairs, np.array([self.run.seed]))[0]
        if self.drawn != (key := (n, trained.tobytes())):
            self.draw_stages(n, trained)
            self.drawn = key
        for stage in (self.network, self.particles):
            stage.set_reach(_REACH)
        self.remember()
        self.player.ask()

    def draw_stages(self, n: int, trained: np.ndarray) -> None:
        """Make the figures for N tokens; pair sums of the training split are filled."""
        self.network, self.particles = LivePlane(_REACH, "embedding of the network"), LivePlane(_REACH, "particles")
        self.map = LivePlane(1.0, "class map and pair sums")
        self.tokens = {"network": LiveTokens(self.network, n), "particles": LiveTokens(self.particles, n)}
        pixels = Map(
            "classes", pale_colours(class_colours(n)), tuple(f"predicted class {c}" for c in range(n)), lines=False
        )
        self.classes = self.map.map(pixels, _MAP_SIDE)
        layer = pair_sum_points(n, filled=trained)
        layer = dataclasses.replace(layer, size=2 * layer.size)
        self.sums = self.map.points(layer)
        shapes, colours = ("cross",) * len(trained), np.full((len(trained), 3), 0.1)
        small = 0.25 * layer.size  # the marks' colours remain visible
        wrong = dataclasses.replace(layer, shapes=shapes, colours=colours, filled=None, size=small)
        self.crosses = self.map.points(wrong)
        legend = "Background: predicted class. Marks: pairs i + j; filled: training, hollow: validation, cross: wrong."
        class_map = titled_plot("Class map", self.map.figure, self.words["map"].layout)
        class_map.children.append(text_div(legend, 12, FAINT, (4, 0, 0, 32)))
        self.stages.children = [
            titled_plot("Network", self.network.figure, self.words["network"].layout),
            class_map,
            titled_plot("Particles", self.particles.figure, self.words["particles"].layout),
        ]

    # ------------------------------------------------------------------------------------------ animation

    def turned(self, *events: Any) -> None:
        """Take changed settings: learning rate and weight decay apply at once, others restart the run."""
        if self.run.change(**{event.name: event.new for event in events}):
            self.begin()
        self.player.ask()

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view."""
        return live_view_code(self.run.settings, self.run.seed, self.run.epoch, self.run.unchanged)

    def frame(self, moving: bool) -> None:
        if moving:
            advance_within_time(self.settings.pace, self.run.advance, 5)
            self.moved()
        self.draw()

    def step(self) -> None:
        self.run.advance(1)
        self.moved()

    def moved(self) -> None:
        self.remember()
        if self.run.diverged:
            self.player.pause()

    def remember(self) -> None:
        run, nothing = self.run, float("nan")
        counts = [embedding_structure(x).imperfections for x in (run.embedding, run.particles.embedding)]
        scores = [score.get(split, nothing) for score in (run.loss, run.accuracy) for split in _SPLITS]
        self.history.add(run.epoch, *scores, *counts)

    def draw(self) -> None:
        x, y = self.run.embedding, self.run.particles.embedding
        self.network.fit(x)
        self.particles.fit(y)
        self.tokens["network"].show(x)
        self.tokens["particles"].show(y)
        self.draw_map(x)
        if self.frames % TEXT_EVERY == 0 or not self.player.running:
            self.say()
        if self.frames % CHARTS_EVERY == 0 or not self.player.running:
            self.draw_charts()
        self.frames += 1

    def draw_map(self, embedding: np.ndarray) -> None:
        """The plane of pair sums, scaled to unit size."""
        n, reach = self.run.settings.n, 2 * self.network.reach
        pairs = all_pairs(n)
        sums = embedding[pairs[:, 0]] + embedding[pairs[:, 1]]
        ticks = reach * (2 * np.arange(_MAP_SIDE) + 1 - _MAP_SIDE) / _MAP_SIDE
        pixels = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        found = self.run.classes(np.concatenate([pixels, sums]))
        wrong = found[len(pixels) :] != modular_sum(pairs, n)
        self.classes.show(found[: len(pixels)].reshape(_MAP_SIDE, _MAP_SIDE))
        self.sums.show(sums / reach)
        self.crosses.show(np.where(wrong[:, None], sums / reach, np.nan))

    def draw_charts(self) -> None:
        columns = self.history.arrays()
        for chart in self.charts:
            chart.show(columns)

    def say(self) -> None:
        run = self.run
        self.words["network"].say(embedding_structure(run.embedding).words)
        structure = embedding_structure(run.particles.embedding)
        self.words["particles"].say(f"step {run.particles.state.step}: {structure.words}")
        self.words["map"].say("correct: " + ", ".join(f"{share:.0%} {split}" for split, share in run.accuracy.items()))
        stopped = "; the next epoch is not finite: the run has diverged" if run.diverged else ""
        self.words["clock"].say(f"epoch {run.epoch}{stopped}", not self.player.running)
