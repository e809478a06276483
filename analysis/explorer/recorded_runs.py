"""The page of recorded runs: choose one run, or two side by side, and show any frame.

`RunsPage` has a `layout` of Bokeh models and `settings`, a `param.Parameterized` that
holds the view. The page is built when it is first shown; the arrays of all frames
follow once the browser has painted the first one."""

from collections.abc import Sequence
from typing import Any

from bokeh.models import Column, Div, Row

from analysis.explorer.catalogue import RunEntry, first_run
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.run_selector import RunSelector
from analysis.explorer.screen import Screen, time_bar
from analysis.explorer.sliders import ParticleSliders
from analysis.explorer.streaming import BufferStream
from analysis.explorer.theme import STACKED, notice_div, text_div
from analysis.explorer.url_state import as_text, printable_text
from analysis.explorer.view_code import RecordedView, recorded_view_code
from analysis.explorer.view_settings import (
    NO_CHOICE,
    ViewSettings,
    default_panel_names,
    parse_axes,
    split_panels,
)
from analysis.panels.limits import common_panel_names
from analysis.panels.style import StyleName, style_in_use
from analysis.statistics.run_success import evaluation_split
from dynamics.errors import TrajectoryError
from dynamics.forces import law_json
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.trajectory.schema import read_settings


class RunsPage:
    """Recorded runs for one visitor."""

    def __init__(self, files: OpenFiles, style: StyleName = "screen") -> None:
        self.files = files
        self.style = style
        names = list(files.paths)
        self.settings = s = ViewSettings()
        s.param["file"].objects = names or [""]
        s.param["other_file"].objects = [NO_CHOICE, *names]
        s.file = s.param["file"].objects[0]
        self.screen: Screen | None = None
        self._is_built = False
        self._ignores_changes = False
        """Whether the page itself sets settings."""
        self.selector = RunSelector(self.settings, names)
        place = (0, 8, 3, 2)
        self.title = text_div("", 17, margin=place, font_weight="600")
        self.facts = text_div("", 12, "muted", place)
        self.message = notice_div()
        self.bar = time_bar()
        self.status = Div(visible=False, tags=[])
        self.status.on_change("tags", self._follow_step)
        self.panel_column = Column(sizing_mode="stretch_width")
        parts = (
            self.title,
            self.facts,
            self.message,
            self.bar,
            self.panel_column,
            self.status,
        )
        self.layout = Row(
            self.selector.layout,
            Column(*parts, sizing_mode="stretch_width"),
            sizing_mode="stretch_width",
            stylesheets=[STACKED],
        )
        self.buffer_stream = BufferStream(self.layout)
        watched = [name for name in s.param if name not in ("name", "step")]
        s.param.watch(self._apply_changes, watched)

    # --------------------------------------------------------------- interface of a tab

    def show(self) -> None:
        """The page becomes visible: build it, or continue to send buffers."""
        if self._is_built:
            self.buffer_stream.go_on()
        else:
            self._is_built = True
            self._show_view(())

    def hide(self, briefly: bool = False) -> None:
        """The page becomes hidden; the browser pauses by itself."""
        self.buffer_stream.stop()

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view, with a number of panels in a row; none if
        nothing is shown."""
        s = self.settings
        screen = self.screen
        if screen is None:
            return ""
        frames = screen.first_frames if s.step is None else screen.frames_at(s.step)
        runs = (s.file, s.run), (s.other_file, s.other_run)
        views = []
        for lane, frame in enumerate(frames):
            file, run = runs[lane]
            step = int(screen.scenes[lane].steps[screen.frames[lane][frame]])
            views.append(RecordedView(self.files.paths[file], run, step))
        shared = common_panel_names(screen.scenes)
        panels = [name for name in screen.panels if name in shared]
        return recorded_view_code(views, panels, parse_axes(s.axes), columns)

    def particle_arguments(self) -> dict[str, list[bytes]]:
        """Settings and seed of the run that is shown, if it is of particles, as an
        address of live particles has them."""
        s = self.settings
        if self.screen is None:
            return {}
        opened = self.files.opened(s.file)
        settings = read_settings(opened.trajectory)
        # a user's system may have settings that are derived from those of particles
        is_particles = settings.system == ParticleSettings.system
        if not (is_particles and isinstance(settings, ParticleSettings)):
            return {}
        values = {**vars(settings), "seed": opened.entries[s.run].seed}
        values["law"] = law_json(settings.law) if settings.law else ""
        names = [name for name in ParticleSliders.param if name in values]
        return {name: [as_text(values[name]).encode()] for name in names}

    def _follow_step(self, attribute: str, old: list[float], new: list[float]) -> None:
        """Take the step that the browser shows."""
        if new:
            self.settings.step = int(new[0])
            if self.screen is not None:
                self.buffer_stream.look_at(self.screen.frames_at(int(new[0])))

    # -------------------------------------------------------------------- what is shown

    def _set_settings(self, **values: Any) -> None:
        """Set settings whose values the page chooses."""
        self._ignores_changes = True
        self.settings.param.update(**values)
        self._ignores_changes = False

    def _apply_changes(self, *events: Any) -> None:
        """Show the view of settings that the user has changed."""
        if self._is_built and not self._ignores_changes:
            self._show_view(tuple(event.name for event in events))

    def _show_view(self, changed: Sequence[str]) -> None:
        """Show the view of the settings, or a message that says why this is not
        possible."""
        try:
            with style_in_use(self.style):
                notes = self._build_view(changed)
            self.message.update(text="\n".join(notes), visible=bool(notes))
        except (SettingsError, TrajectoryError) as error:
            self._show_error(str(error))
        except OSError as error:
            self._show_error(f"{self.settings.file}: {error.strerror or error}")

    def _show_error(self, text: str) -> None:
        """Show a message instead of panels."""
        self.message.update(text=text, visible=True)
        self.title.update(text=self.settings.file, visible=True)
        self.facts.visible = False
        self.panel_column.children = []
        self.screen = None
        self.buffer_stream.begin(None)

    def _build_view(self, changed: Sequence[str]) -> list[str]:
        """Show the view of the settings; returns notes on settings that this file does
        not allow."""
        s = self.settings
        if not s.file:
            example = "a trajectory, as in: python -m analysis.explore RUN.nc"
            raise SettingsError("file", "none", example)
        names = [s.file] if s.other_file == NO_CHOICE else [s.file, s.other_file]
        opened = [self.files.opened(name) for name in names]
        entries = opened[0].entries
        others = opened[1].entries if len(opened) > 1 else []
        notes = self._choose_runs(changed, entries, others)
        for axes in (s.axes, ""):
            try:
                scenes = [
                    item.scene(run, parse_axes(axes))
                    for item, run in zip(opened, (s.run, s.other_run), strict=False)
                ]
                break
            except SettingsError as error:
                notes.append(f"{error}. The default is used.")
        titles = {panel.name: panel.title for scene in scenes for panel in scene.panels}
        requested = split_panels(s.panels)
        drawn = [name for name in titles if name in requested]
        missing = [printable_text(name) for name in requested if name not in titles]
        if missing:
            rest = "The others" if drawn else "The main panels"
            notes.append(f"panels: no {', '.join(missing)} here. {rest} are shown.")
        if s.panels == NO_CHOICE:
            notes.append("no panel is chosen")
        elif not drawn:
            drawn = default_panel_names(scenes)
        keep = "file" not in changed and self.screen is not None
        self._show_screen(
            Screen(scenes, drawn, self.bar, self.status, s.step, keep, names)
        )
        has_scores = any(entry.loss is not None for entry in entries)
        split = evaluation_split(opened[0].trajectory) if has_scores else ""
        self.selector.show(entries, others, titles, drawn, split)
        return notes

    def _choose_runs(
        self,
        changed: Sequence[str],
        entries: Sequence[RunEntry],
        others: Sequence[RunEntry],
    ) -> list[str]:
        """Choose the runs that are not chosen or do not exist; returns notes on the
        latter.

        A new file starts at the end of its default run."""
        s = self.settings
        notes = []
        for name, runs in (("run", entries), ("other_run", others)):
            if runs and (getattr(s, name) or 0) >= len(runs):
                allowed = f"a run index from 0 to {len(runs) - 1}"
                error = SettingsError(name, getattr(s, name), allowed)
                notes.append(f"{error}. The default is used.")
                self._set_settings(**{name: None})
        if changed == ("file",):
            self._set_settings(run=None, step=None)
        if s.run is None:
            self._set_settings(run=first_run(entries))
        if others and (s.other_run is None or changed == ("other_file",)):
            of_same_file = s.other_file == s.file
            free = [e.run for e in others if not of_same_file or e.run != s.run]
            self._set_settings(other_run=free[0] if free else 0)
        return notes

    def _show_screen(self, screen: Screen) -> None:
        """Put a screen on the page and send its buffers."""
        self.title.text = screen.scenes[0].title
        self.facts.text = screen.facts[0]
        # each of two runs has its own title
        self.title.visible = not screen.is_pair
        self.facts.visible = not screen.is_pair
        screen.receive_batches()
        self.screen = screen
        self.panel_column.children = [screen.layout]
        self.buffer_stream.begin(screen)
