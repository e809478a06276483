"""The page of recorded runs: choose one run, or two side by side, and show any frame.

`RunsPage` has a `layout` of Bokeh models and `settings`, a `param.Parameterized` that
holds the view. The page is built when it is first shown; the arrays of all frames
follow once the browser has painted the first one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bokeh.models import Column, Div, Row

from analysis.explorer.catalogue import RunEntry, first_run_to_show
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.run_selector import RunSelector
from analysis.explorer.screen import Screen, facts_line
from analysis.explorer.streaming import BufferStream
from analysis.explorer.theme import FAINT, INK, STACKED, notice_div, text_div
from analysis.explorer.timebar import time_bar
from analysis.explorer.url_state import printable_text
from analysis.explorer.view_code import RecordedView, recorded_view_code
from analysis.explorer.view_settings import (
    NO_CHOICE,
    ViewSettings,
    default_panel_names,
    parse_axes,
    split_panels,
)
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Scene
from analysis.statistics.run_success import evaluation_split
from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError


class RunsPage:
    """Recorded runs for one visitor."""

    def __init__(self, paths: Sequence[Path | str] | OpenFiles) -> None:
        self.files = (
            paths
            if isinstance(paths, OpenFiles)
            else OpenFiles([Path(path) for path in paths])
        )
        names = list(self.files.paths)
        self.settings = ViewSettings()
        self.settings.param["file"].objects = names or [""]
        self.settings.param["other_file"].objects = [NO_CHOICE, *names]
        self.settings.file = names[0] if names else ""
        self.screen: Screen | None = None
        self._settling = self._shown = False
        self.side = RunSelector(self.settings, names, self.settings.param.update)
        self.title = text_div("", 17, INK, (0, 8, 3, 2), font_weight="600")
        self.facts = text_div("", 12, FAINT, (0, 8, 3, 2))
        self.message, self.bar = notice_div(), time_bar()
        self.status = Div(visible=False, tags=[])
        self.status.on_change("tags", self._looked_at)
        self.wall = Column(sizing_mode="stretch_width", margin=0)
        parts = (self.title, self.facts, self.message, self.bar, self.wall, self.status)
        content = Column(*parts, sizing_mode="stretch_width")
        self.layout = Row(
            self.side.layout,
            content,
            sizing_mode="stretch_width",
            stylesheets=[STACKED],
        )
        self.parcels = BufferStream(self.layout)
        self.settings.param.watch(
            self._changed,
            [name for name in self.settings.param if name not in ("name", "step")],
        )

    # --------------------------------------------------------------- interface of a tab

    def show(self) -> None:
        """The page becomes visible: build it, or continue to send buffers."""
        if self._shown:
            self.parcels.go_on()
        else:
            self._shown = True
            self._renew(())

    def hide(self, briefly: bool = False) -> None:
        """The page becomes hidden; the browser pauses by itself."""
        self.parcels.stop()

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view, with a number of panels in a row; none if
        nothing is shown."""
        s, screen = self.settings, self.screen
        if screen is None or s.run is None:
            return ""
        runs = [
            (s.file, s.run),
            *([(s.other_file, s.other_run or 0)] if len(screen.scenes) > 1 else []),
        ]
        steps = screen.steps_at(
            int(screen.scenes[0].steps[0]) if s.step is None else s.step
        )
        views = [
            RecordedView(self.files.paths[file], run, step)
            for (file, run), step in zip(runs, steps, strict=True)
        ]
        shared = [{panel.name for panel in scene.panels} for scene in screen.scenes]
        panels = [
            name for name in screen.panels if all(name in names for names in shared)
        ]
        return recorded_view_code(views, panels, parse_axes(s.axes), columns)

    def _looked_at(self, attribute: str, old: list[float], new: list[float]) -> None:
        if new:
            self.settings.step = int(new[0])
            if self.screen is not None:
                self.parcels.near = self.screen.frames_at(int(new[0]))

    # -------------------------------------------------------------------- what is shown

    def _settle(self, **values: Any) -> None:
        """Set settings whose values the page chooses."""
        self._settling = True
        self.settings.param.update(**values)
        self._settling = False

    def _changed(self, *events: Any) -> None:
        if self._shown and not self._settling:
            self._renew(tuple(event.name for event in events))

    def _renew(self, changed: Sequence[str]) -> None:
        """Show the view of the settings, or a message that says why this is not
        possible."""
        try:
            notes = self._make(changed)
            self.message.update(text="\n".join(notes), visible=bool(notes))
        except (SettingsError, TrajectoryError) as error:
            self._refuse(str(error))
        except OSError as error:
            self._refuse(f"{self.settings.file}: {error.strerror or error}")

    def _refuse(self, words: str) -> None:
        self.message.update(text=words, visible=True)
        self.title.update(text=self.settings.file, visible=True)
        self.facts.visible = False
        self.wall.children, self.screen = [], None
        self.parcels.begin(None)

    def _make(self, changed: Sequence[str]) -> list[str]:
        """Show the view of the settings; returns notes on settings that this file does
        not allow."""
        s = self.settings
        if not s.file:
            raise SettingsError(
                "file", "none", "a trajectory, as in: python -m analysis.explore RUN.nc"
            )
        trajectory, entries = self.files.opened(s.file)
        other, others = (
            self.files.opened(s.other_file) if s.other_file != NO_CHOICE else (None, [])
        )
        notes = self._settle_runs(changed, entries, others)
        chosen = [
            (trajectory, s.run or 0),
            *([] if other is None else [(other, s.other_run or 0)]),
        ]
        try:
            scenes = [
                build_scene(item, run, parse_axes(s.axes)) for item, run in chosen
            ]
        except SettingsError as error:
            notes.append(f"{error}. The default is used.")
            scenes = [build_scene(item, run) for item, run in chosen]
        titles = {panel.name: panel.title for scene in scenes for panel in scene.panels}
        requested = split_panels(s.panels)
        names = [name for name in titles if name in requested]
        if missing := [
            printable_text(name) for name in requested if name not in titles
        ]:
            notes.append(
                f"panels: no {', '.join(missing)} here."
                f" {'The others' if names else 'The main panels'} are shown."
            )
        if s.panels == NO_CHOICE:
            notes.append("no panel is chosen")
        elif not names:
            names = default_panel_names(
                *([panel.name for panel in scene.panels] for scene in scenes)
            )
        keep = self.screen is not None and "file" not in changed
        self._show(
            Screen(
                scenes,
                names,
                self.bar,
                self.status,
                s.step,
                s.by,
                s.size,
                keep,
                [s.file, s.other_file],
            )
        )
        scored = any(
            entry.accuracy is not None or entry.loss is not None for entry in entries
        )
        self.side.show(
            entries,
            others,
            titles,
            names,
            evaluation_split(trajectory) if scored else "",
        )
        return notes

    def _settle_runs(
        self,
        changed: Sequence[str],
        entries: Sequence[RunEntry],
        others: Sequence[RunEntry],
    ) -> list[str]:
        """Choose the runs that are not chosen or do not exist; returns notes on the
        latter.

        A new file starts at the end of its default run.
        """
        s, notes = self.settings, []
        for name, runs in (("run", entries), ("other_run", others)):
            if runs and (getattr(s, name) or 0) >= len(runs):
                error = SettingsError(
                    name, getattr(s, name), f"a run index from 0 to {len(runs) - 1}"
                )
                notes.append(f"{error}. The default is used.")
                self._settle(**{name: None})
        if changed == ("file",):
            self._settle(run=None, step=None)
        if s.run is None:
            self._settle(run=first_run_to_show(entries))
        if others and (s.other_run is None or changed == ("other_file",)):
            same = s.other_file == s.file
            self._settle(
                other_run=next(
                    (e.place for e in others if not (same and e.place == s.run)), 0
                )
            )
        return notes

    def _show(self, screen: Screen) -> None:
        """Put a screen on the page and send its buffers."""
        scenes: list[Scene] = screen.scenes
        self.title.text = scenes[0].title
        self.facts.text = facts_line(scenes[0], screen.frames[0])
        self.title.visible = self.facts.visible = (
            len(scenes) == 1
        )  # each of two runs has its own title
        screen.listen()
        self.screen, self.wall.children = screen, [screen.layout]
        self.parcels.begin(screen)
