"""The tab of a small network that learns addition, beside particles that began at its first embedding."""

import dataclasses
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.models import Column, Row, UIElement

from analysis.explorer.controls import Dial, Words, legend, plotted, side
from analysis.explorer.live_figures import Chart, Stage, pair_points
from analysis.explorer.live_run import EPOCHS_A_STEP, History, TrainingRun, structure
from analysis.explorer.player import CHARTS_EVERY, WORDS_EVERY, Player, in_time
from analysis.explorer.sliders import TRAINING_STEPS, TrainingDials
from analysis.explorer.theme import FAINT, chooser, text
from analysis.plots.drawing.colours import class_colours, pale
from analysis.plots.scenes.scene import Map
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum, training_pairs

SIDE = 100
"""Pixels along a side of the class map."""


REACH = 3.0
SPLITS = ("train", "validation")
KINDS = ("network", "particles")


class TrainingPage:
    """Sliders, buttons and figures of a network that learns and of particles beside it."""

    def __init__(self, document: Document) -> None:
        """Raises MissingPackage without torch."""
        self.settings = TrainingDials()
        self.run = TrainingRun(ModularSettings())
        self.history = History("x", "train", "validation", "train_right", "validation_right", *KINDS)
        self.player = Player(document, self.frame, self.step)
        self.frames, self.drawn = 0, (0, b"")
        self.words = {name: Words() for name in (*KINDS, "map")}
        self.words["clock"] = Words(margin_bottom="12px")
        self.charts = {
            "loss": Chart("loss over epochs", SPLITS, "epoch", log=True),
            "accuracy": Chart("accuracy over epochs", SPLITS, "epoch", limits=(0, 1.05)),
            "imperfections": Chart("grid imperfections over epochs", KINDS, "epoch"),
        }
        self.stages = Row(sizing_mode="stretch_width")
        self.settings.param.watch(self.turned, list(TRAINING_STEPS))
        self.begin()
        plots = Column(self.stages, self.lower(), sizing_mode="stretch_width")
        self.layout = Row(self.controls(), plots, sizing_mode="stretch_width")

    def controls(self) -> UIElement:
        dials = [Dial(self.settings, name, step).layout for name, step in TRAINING_STEPS.items()]
        note = text("The learning rate and the weight decay change at once; others begin anew. "
                    f"Particles take a step in {EPOCHS_A_STEP} epochs.", 12, FAINT)  # fmt: skip
        buttons = self.player.buttons(self.begin)
        return side(buttons, self.words["clock"].layout, *dials, chooser(self.settings, "pace"), note)

    def lower(self) -> UIElement:
        """Curves, and what colour each has."""
        titles = {
            "loss": ("Loss", SPLITS),
            "accuracy": ("Accuracy", SPLITS),
            "imperfections": ("Grid imperfections", KINDS),
        }
        plots = [plotted(title, self.charts[name].figure, *legend(names)) for name, (title, names) in titles.items()]
        return Row(*plots, sizing_mode="stretch_width")

    def begin(self) -> None:
        """Begin anew with the settings there are."""
        self.run.restart()
        self.history.clear()
        self.frames = 0
        n, trained = (
            self.run.settings.n,
            training_pairs(self.run.settings.n, self.run.settings.train_pairs, np.array([self.run.seed]))[0],
        )
        if self.drawn != (key := (n, trained.tobytes())):
            self.draw_stages(n, trained)
            self.drawn = key
        for stage in (self.network, self.particles):
            stage.set_reach(REACH)
        self.remember()
        self.player.ask()

    def draw_stages(self, n: int, trained: np.ndarray) -> None:
        """The squares for N tokens, of whose pairs some are trained on."""
        self.network, self.map, self.particles = (
            Stage(REACH, "embedding of the network"), Stage(1.0, "class map and pair sums"), Stage(REACH, "particles")
        )  # fmt: skip
        self.tokens = {"network": self.network.tokens(n), "particles": self.particles.tokens(n)}
        pixels = Map("classes", pale(class_colours(n)), tuple(f"class {c}" for c in range(n)), lines=False)
        self.classes = self.map.map(pixels, SIDE)
        layer = pair_points(n, filled=trained)
        self.sums = self.map.points(layer)
        crosses = dataclasses.replace(layer, shapes=("cross",) * len(trained), colours=np.full((len(trained), 3), 0.1))
        self.crosses = self.map.points(dataclasses.replace(crosses, filled=None))
        self.stages.children = [
            plotted("Network", self.network.figure, self.words["network"].layout),
            plotted("Class map", self.map.figure, self.words["map"].layout),
            plotted("Particles", self.particles.figure, self.words["particles"].layout),
        ]

    # ------------------------------------------------------------------------------------------ as it moves

    def turned(self, *events: Any) -> None:
        """Other settings: rates change at once, the rest begins anew."""
        if self.run.change(**{event.name: event.new for event in events}):
            self.begin()
        self.player.ask()

    def frame(self, moving: bool) -> None:
        if moving:
            in_time(self.settings.pace, self.run.advance, 5)
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
        counts = [structure(x).imperfections for x in (run.embedding, run.particles.embedding)]
        scores = [score.get(split, nothing) for score in (run.loss, run.accuracy) for split in SPLITS]
        self.history.add(run.epoch, *scores, *counts)

    def draw(self) -> None:
        x, y = self.run.embedding, self.run.particles.embedding
        self.network.fit(x)
        self.particles.fit(y)
        self.tokens["network"].show(x)
        self.tokens["particles"].show(y)
        self.draw_map(x)
        if self.frames % WORDS_EVERY == 0 or not self.player.running:
            self.say()
        if self.frames % CHARTS_EVERY == 0 or not self.player.running:
            self.draw_charts()
        self.frames += 1

    def draw_map(self, embedding: np.ndarray) -> None:
        """The plane of pair sums, which is twice as wide as that of tokens; drawn at unit size."""
        n, reach = self.run.settings.n, 2 * self.network.reach
        pairs = all_pairs(n)
        sums = embedding[pairs[:, 0]] + embedding[pairs[:, 1]]
        ticks = reach * (2 * np.arange(SIDE) + 1 - SIDE) / SIDE
        pixels = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        found = self.run.classes(np.concatenate([pixels, sums]))
        wrong = found[len(pixels) :] != modular_sum(pairs, n)
        self.classes.show(found[: len(pixels)].reshape(SIDE, SIDE))
        self.sums.show(sums / reach)
        self.crosses.show(np.where(wrong[:, None], sums / reach, np.nan))

    def draw_charts(self) -> None:
        columns = self.history.arrays()
        x = columns["x"]
        self.charts["loss"].show({"x": x, **{split: columns[split] for split in SPLITS}})
        self.charts["accuracy"].show({"x": x, **{split: columns[f"{split}_right"] for split in SPLITS}})
        self.charts["imperfections"].show({"x": x, **{kind: columns[kind] for kind in KINDS}})

    def say(self) -> None:
        run = self.run
        self.words["network"].say(structure(run.embedding).words)
        self.words["particles"].say(f"step {run.particles.state.step}: {structure(run.particles.embedding).words}")
        self.words["map"].say("right: " + ", ".join(f"{share:.0%} {split}" for split, share in run.accuracy.items()))
        stopped = "; the next cannot be taken: weights beyond measure" if run.diverged else ""
        self.words["clock"].say(f"epoch {run.epoch}{stopped}")

    def show(self) -> None:
        self.player.show()

    def hide(self) -> None:
        self.player.hide()
