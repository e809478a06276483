"""The base class of the tabs with a live run: settings, buttons, panels, and curves."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import param
from bokeh.document import Document
from bokeh.models import Column, Row, UIElement

from analysis.explorer.controls import StatusLine, setting_widget
from analysis.explorer.live_figures import Chart, LiveCharts, LivePanel
from analysis.explorer.player import Player, advance_within_time
from analysis.explorer.screen import panel_grid
from analysis.explorer.theme import LAST_IF_STACKED, STACKED, text_div
from analysis.explorer.view_code import live_view_code
from analysis.panels.style import StyleName, style_in_use

TEXT_EVERY = 6
"""Frames between updates of text."""
CHARTS_EVERY = 10
"""Frames between updates of curves, whose axes take longer to paint than all points."""
_PANEL_WIDTH = 300
"""Smallest width of panels in pixels."""


class LivePage:
    """A tab with a live run. Subclasses define what is different: the settings, the run,
    its panels, and the charts below them."""

    unit = "epoch"
    at_once = 5
    """Steps that are computed together."""
    note = ""
    sliders: type[param.Parameterized]
    """Fields of the run's settings, seed and pace."""
    chart_list: ClassVar[Sequence[Chart]]

    def __init__(self, document: Document, style: StyleName = "screen") -> None:
        """Raises MissingPackage if the run needs torch, which is missing."""
        self.document = document
        self.style = style
        self.settings: Any = self.sliders()
        self.run = self.make_run()
        self.names = [n for n in self.settings.param if n not in ("name", "pace")]
        self.panels: Sequence[LivePanel] = ()
        self.drawn: Any = None
        self.player = Player(document, self.frame, self.step, self.begin)
        self.show = self.player.show
        self.hide = self.player.hide
        self.clock = StatusLine("clock", align_self="center", min_width="240px")
        with style_in_use(style):
            self.charts = LiveCharts(self.chart_list, self.unit)
        self.stages = panel_grid([], _PANEL_WIDTH)
        self.settings.param.watch(self.turn, self.names)
        self.begin()
        wide: Any = {"sizing_mode": "stretch_width"}
        top = Row(self.player.layout, self.clock.layout, **wide)
        top.styles = {"flex-wrap": "wrap"}
        side = Column(*self.controls(), width=256, margin=(0, 28, 0, 0))
        side.stylesheets = [LAST_IF_STACKED]
        figures = Column(top, self.stages, self.charts.layout, **wide)
        self.layout = Row(side, figures, stylesheets=[STACKED], **wide)

    def controls(self) -> list[UIElement]:
        """The controls beside the panels."""
        names = (*self.names, "pace")
        widgets = [setting_widget(self.settings, name) for name in names]
        return [*widgets, text_div(self.note, 12, "muted")]

    # ------------------------------------------------------------ defined by subclasses

    def make_run(self) -> Any:
        raise NotImplementedError

    def panel_key(self) -> Any:
        """What the panels depend on; they are made again when it changes."""
        return self.run.settings.n

    def make_panels(self) -> Sequence[LivePanel]:
        raise NotImplementedError

    def measures(self) -> Mapping[str, float]:
        """The values of the charts."""
        return self.run.scores()

    def remark(self) -> str:
        """What is said beside the time."""
        return ""

    # ------------------------------------------------------------- interface of a tab

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view."""
        run = self.run
        return live_view_code(run.settings, run.seed, run.time, run.unchanged)

    # ------------------------------------------------------------------------ animation

    def turn(self, *events: Any) -> None:
        """Take changed settings; some restart the run."""
        values = {name: getattr(self.settings, name) for name in self.names}
        if self.run.change(**values):
            self.begin()
        self.player.ask()

    def begin(self) -> None:
        """Restart with the current settings."""
        self.run.restart()
        self.charts.clear()
        self.frames = 0
        self.due = 0.0
        if self.drawn != (key := self.panel_key()):
            self.drawn = key
            with style_in_use(self.style):
                self.panels = self.make_panels()
            self.stages.children = [panel.layout for panel in self.panels]
        self.remember()
        self.player.ask()

    def frame(self, moving: bool) -> None:
        """Draw a frame, after advancing if `moving` is true."""
        if moving:
            self.due += self.settings.pace
            steps = int(self.due)
            self.due -= steps
            advance_within_time(steps, self.run.advance, self.at_once)
            self.remember()
        self.draw()

    def step(self) -> None:
        self.run.advance(1)
        self.remember()

    def remember(self) -> None:
        """Add the values of the charts, and pause if the run has diverged."""
        self.charts.add(x=self.run.time, **self.measures())
        if self.run.diverged:
            self.player.pause()

    def draw(self) -> None:
        paused = not self.player.running
        for panel in self.panels:
            panel.draw()
        if paused or self.frames % TEXT_EVERY == 0:
            for panel in self.panels:
                panel.words.say(panel.text())
            stopped = f"; the next {self.unit} is not finite: the run has diverged"
            words = f"{self.unit} {self.run.time}{stopped * self.run.diverged}"
            self.clock.say(words + self.remark(), paused)
        if paused or self.frames % CHARTS_EVERY == 0:
            self.charts.draw()
        self.frames += 1
