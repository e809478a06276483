"""The base class of the tabs in which a network is trained: sliders, buttons, and
curves of loss and accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

import param
from bokeh.document import Document
from bokeh.models import Column, Row, UIElement

from analysis.explorer.controls import (
    LabelledSlider,
    StatusLine,
    control_column,
    curve_legend,
    titled_plot,
)
from analysis.explorer.live_figures import LiveChart
from analysis.explorer.live_run import History, NetworkRun
from analysis.explorer.player import (
    CHARTS_EVERY,
    TEXT_EVERY,
    LivePage,
    Player,
    advance_within_time,
)
from analysis.explorer.theme import FAINT, STACKED, parameter_select, text_div
from analysis.explorer.view_code import live_view_code


class NetworkPage(LivePage):
    """Sliders, buttons and curves of a network in training. Subclasses draw the planes
    above the curves."""

    splits: tuple[str, ...]
    slider_steps: Mapping[str, float]
    note: str

    def __init__(
        self,
        document: Document,
        settings: Any,
        run: NetworkRun,
        words: Sequence[str],
        chart: LiveChart,
        third: UIElement,
    ) -> None:
        """words: names of the lines of text. chart: the last chart. third: the layout
        with this chart and its title."""
        self.settings, self.run, self.third = settings, run, third
        right = [f"{split}_right" for split in self.splits]
        self.history = History("x", *self.splits, *right, *chart.names)
        self.player = Player(document, self.frame, self.step)
        self.frames = 0
        self.words = {name: StatusLine() for name in words}
        self.words["clock"] = StatusLine("clock", margin_bottom="12px")
        self.charts = [
            LiveChart("loss over epochs", self.splits, "epoch", log=True),
            LiveChart("accuracy over epochs", right, "epoch", limits=(0, 1.05)),
            chart,
        ]
        self.stages = Row(
            sizing_mode="stretch_width", stylesheets=[STACKED], margin=(0, 0, 22, 0)
        )
        self.settings.param.watch(self.turned, list(self.slider_steps))
        self.begin()
        plots = Column(self.stages, self.lower(), sizing_mode="stretch_width")
        self.layout = Row(
            self.controls(), plots, sizing_mode="stretch_width", stylesheets=[STACKED]
        )

    def controls(self) -> UIElement:
        sliders = [
            LabelledSlider(self.settings, name, step).layout
            for name, step in self.slider_steps.items()
        ]
        buttons = self.player.buttons(self.begin)
        pace = parameter_select(self.settings, "pace")
        return control_column(
            buttons,
            self.words["clock"].layout,
            *sliders,
            pace,
            text_div(self.note, 12, FAINT),
        )

    def lower(self) -> UIElement:
        """Curves and their legend."""
        loss, accuracy = (chart.figure for chart in self.charts[:2])
        return Row(
            titled_plot("Loss (log)", loss, *curve_legend(self.splits)),
            titled_plot("Accuracy", accuracy, *curve_legend(self.splits)),
            self.third,
            sizing_mode="stretch_width",
            stylesheets=[STACKED],
        )

    def begin(self) -> None:
        """Restart with the current settings."""
        self.run.restart()
        self.history.clear()
        self.frames = 0
        self.prepare()
        self.remember()
        self.player.ask()

    # defined by subclasses

    def prepare(self) -> None:
        """Make the figures of the planes, where the settings require others."""
        raise NotImplementedError

    def measures(self) -> list[float]:
        """The values of the last chart."""
        raise NotImplementedError

    def draw_planes(self) -> None:
        raise NotImplementedError

    def describe_planes(self) -> None:
        """Write the lines of text."""
        raise NotImplementedError

    # ------------------------------------------------------------------------ animation

    def turned(self, *events: param.parameterized.Event) -> None:
        """Take changed settings: learning rate and weight decay apply at once, others
        restart the run."""
        if self.run.change(**{event.name: event.new for event in events}):
            self.begin()
        self.player.ask()

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view."""
        return live_view_code(
            self.run.settings, self.run.seed, self.run.epoch, self.run.unchanged
        )

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
        both, nothing = (self.run.loss, self.run.accuracy), float("nan")
        scores = [score.get(split, nothing) for score in both for split in self.splits]
        self.history.add(self.run.epoch, *scores, *self.measures())

    def draw(self) -> None:
        self.draw_planes()
        if self.frames % TEXT_EVERY == 0 or not self.player.running:
            self.describe_planes()
            stopped = (
                "; the next epoch is not finite: the run has diverged"
                if self.run.diverged
                else ""
            )
            self.words["clock"].say(
                f"epoch {self.run.epoch}{stopped}", not self.player.running
            )
        if self.frames % CHARTS_EVERY == 0 or not self.player.running:
            columns = self.history.arrays()
            for chart in self.charts:
                chart.show(columns)
        self.frames += 1

    @property
    def accuracies(self) -> str:
        return "correct: " + ", ".join(
            f"{share:.0%} {split}" for split, share in self.run.accuracy.items()
        )
