"""The base class of the tabs with a live run: settings, buttons, panels, and curves."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import param
from bokeh.document import Document
from bokeh.models import Column, Row, UIElement, Widget

from analysis.explorer.controls import StatusLine, setting_widget
from analysis.explorer.live_figures import Chart, LiveCharts, LivePanel
from analysis.explorer.player import Player, advance_within_time
from analysis.explorer.screen import panel_grid
from analysis.explorer.theme import style_sheet, text_div
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
    steps_together = 5
    """Steps that are computed in one call."""
    note = ""
    sliders: type[param.Parameterized]
    """Fields of the run's settings, seed and pace."""
    leading_settings: Sequence[str] = ("lr", "weight_decay")
    """Settings whose controls stand above the first picture in a narrow window, where
    all others are below the last one."""
    chart_list: ClassVar[Sequence[Chart]]
    widgets: dict[str, Widget]
    """The controls of the settings, by name."""

    def __init__(self, document: Document, style: StyleName = "screen") -> None:
        """Raises MissingPackage if the run needs torch, which is missing."""
        self.document = document
        self.style = style
        self.settings: Any = self.sliders()
        self.run = self.make_run()
        self.setting_names = [
            name for name in self.settings.param if name not in ("name", "pace")
        ]
        self.panels: Sequence[LivePanel] = ()
        self.panels_key: Any = None
        self.frames = 0
        self.due_steps = 0.0
        self.player = Player(document, self.frame, self.step, self.begin)
        self.show = self.player.show
        self.hide = self.player.hide
        self.clock = StatusLine("clock", align_self="center", min_width="240px")
        with style_in_use(style):
            self.charts = LiveCharts(self.chart_list, self.unit)
        self.panel_layout = panel_grid([], _PANEL_WIDTH)
        self.settings.param.watch(self.apply_settings, self.setting_names)
        self.begin()
        wide: Any = {"sizing_mode": "stretch_width"}
        top = Row(self.player.layout, self.clock.layout, **wide)
        top.styles = {"flex-wrap": "wrap"}
        figures = (top, self.panel_layout, self.charts.layout)
        controls = self.controls()
        leading = [self.widgets[name] for name in self.leading_settings]
        others = [control for control in controls if control not in leading]
        self.layout = Row(
            Column(*leading, css_classes=["leading"], **wide),
            Column(*others, css_classes=["others"], **wide),
            Column(*figures, css_classes=["figures"], **wide),
            stylesheets=[style_sheet("live")],
            **wide,
        )

    def controls(self) -> list[UIElement]:
        """The controls beside the panels."""
        names = (*self.setting_names, "pace")
        self.widgets = {name: setting_widget(self.settings, name) for name in names}
        return [*self.widgets.values(), text_div(self.note, 12, "muted")]

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

    def status_note(self) -> str:
        """Text after the time."""
        return ""

    # ------------------------------------------------------------- interface of a tab

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view."""
        run = self.run
        return live_view_code(run.settings, run.seed, run.time, run.unchanged)

    # ------------------------------------------------------------------------ animation

    def apply_settings(self, *events: Any) -> None:
        """Apply changed settings; some restart the run."""
        if self.run.change_settings(**self.setting_values()):
            self.begin()
        self.player.request_frame()

    def setting_values(self) -> dict[str, Any]:
        """The settings of the run, and its seed, as the controls have them."""
        return {name: getattr(self.settings, name) for name in self.setting_names}

    def begin(self) -> None:
        """Restart with the current settings."""
        self.run.restart()
        self.charts.clear()
        self.frames = 0
        self.due_steps = 0.0
        key = self.panel_key()
        if self.panels_key != key:
            self.panels_key = key
            with style_in_use(self.style):
                self.panels = self.make_panels()
            self.panel_layout.children = [panel.layout for panel in self.panels]
        self.add_chart_values()
        self.player.request_frame()

    def frame(self, moving: bool) -> None:
        """Draw a frame, after advancing if `moving` is true."""
        if moving:
            self.due_steps += self.settings.pace
            steps = int(self.due_steps)
            self.due_steps -= steps
            advance_within_time(steps, self.run.advance, self.steps_together)
            self.add_chart_values()
        self.draw()

    def step(self) -> None:
        """Advance by one step."""
        self.run.advance(1)
        self.add_chart_values()

    def add_chart_values(self) -> None:
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
                panel.text_line.show(panel.text())
            status = f"{self.unit} {self.run.time}"
            if self.run.diverged:
                status += f"; the next {self.unit} is not finite: the run has diverged"
            self.clock.show(status + self.status_note(), paused)
        if paused or self.frames % CHARTS_EVERY == 0:
            self.charts.draw()
        self.frames += 1
