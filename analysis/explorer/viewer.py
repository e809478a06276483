"""The page of recorded runs: choose one, or two side by side, and look at any frame, in the browser.

`RunsPage` has a `layout` of Bokeh models and `settings`, a `param.Parameterized`, which say what is looked at. The page
is made when it is shown; the arrays of all frames follow once the browser has painted the first, maps after them from
coarse to fine.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import param
import xarray as xr
from bokeh.document import Document
from bokeh.models import Column as ColumnOf
from bokeh.models import Row
from bokeh.models.ui import UIElement
from bokeh.models.widgets import Button, CheckboxGroup, Div, MultiSelect, Select

from analysis.explorer.catalogue import ORDERS, WANTED, Entry, catalogue, chosen, columns, first_to_show
from analysis.explorer.glyphs import FACE, FAINT, INK
from analysis.explorer.packing import from_coarse_to_fine, is_map, layers_of, pack
from analysis.explorer.screen import ACCENT, BY, SIZES, Screen, bar, facts, line
from analysis.panels import scene
from analysis.view.scene import Map, Scene
from dynamics.settings import SettingsError
from dynamics.storage import TrajectoryError
from dynamics.trajectory import open_trajectory

NONE = "none"
SIDE = 96
"""Pixels of a map."""
MAP_FRAMES = 24
"""Frames of maps that are sent at once."""
SHOWN = 8
"""Panels that are shown at first, of those that a run has."""
FIRST = (
    "embedding", "pair_sums", "forces", "class_map", "normalised_sums", "attention", "sequence_embeddings",
    "transform_map", "normalised_sequences", "output_map", "loss", "accuracy", "imperfections", "circularity",
    "gradient_norm",
)  # fmt: skip
"""Panels by how much they say, for a first look."""


class RunsSettings(param.Parameterized):
    """What is looked at. Words that are empty mean what the page chooses."""

    file: Any = param.Selector(objects=[""], label="file", precedence=0)
    run = param.Integer(default=None, bounds=(0, None), allow_None=True, label="place along run", precedence=1)
    step = param.Integer(default=None, bounds=(0, None), allow_None=True, label="step", precedence=2)
    panels = param.String(default="", label="panels, by name", precedence=3)
    axes = param.String(default="", label="two axes, such as 0,1", precedence=4)
    other_file: Any = param.Selector(objects=[NONE], default=NONE, label="compared with a run of", precedence=5)
    other_run = param.Integer(default=None, bounds=(0, None), allow_None=True, label="compared run", precedence=6)
    by: Any = param.Selector(objects=list(BY), default="clock", label="compared at the same", precedence=7)
    size: Any = param.Selector(objects=list(SIZES), default="medium", label="size of panels", precedence=8)


class Files:
    """Trajectories by a short name, opened when they are first needed and shared between visitors."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths: dict[str, Path] = {}
        for path in map(Path, paths):
            name = path.stem if path.stem not in self.paths else str(path)
            self.paths.setdefault(name, path)
        self._opened: dict[str, tuple[xr.Dataset, list[Entry]]] = {}

    def opened(self, name: str) -> tuple[xr.Dataset, list[Entry]]:
        """A trajectory and its catalogue. Raises TrajectoryError."""
        if name not in self._opened:
            trajectory = open_trajectory(self.paths[name], thoroughly=False)
            self._opened[name] = trajectory, catalogue(trajectory, self.paths[name])
        return self._opened[name]

    def warm(self) -> None:
        """Read the first, and make its page once, so that nobody waits for imports. Says nothing of errors."""
        for name in list(self.paths)[:1]:
            page = RunsPage(self)
            page.settings.file = name
            page.show()


def first_panels(names: Sequence[str], most: int = SHOWN) -> list[str]:
    """The panels for a first look, in the order that the run has them."""
    wanted = [name for name in FIRST if name in names]
    wanted += [name for name in names if name not in wanted]
    return [name for name in names if name in wanted[:most]]


def chosen_panels(words: str, names: Sequence[str]) -> list[str]:
    """Those of some panels that words name, with commas between them, in their order. Raises SettingsError."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    found = [name for name in names if name in wanted]
    if wanted and not found:
        raise SettingsError("panels", words, "some of " + ", ".join(names))
    return found


def axes_of(words: str) -> tuple[int, int] | None:
    """Two axes from words such as "0,1". Raises SettingsError."""
    if not words:
        return None
    parts = words.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise SettingsError("axes", words, "two numbers of axes from 0, such as 0,1")
    first, second = map(int, parts)
    return first, second


# --------------------------------------------------------------------------------------------------- controls

LOOK = f"""
    label {{ font: 12px/1.3 {FACE}; color: {FAINT}; }}
    .bk-input {{ font: 12px/1.3 {FACE}; color: {INK}; border-radius: 6px; border-color: #c5ccd3;
      background-color: white; }}
    .bk-input:focus-visible, input:focus-visible {{ outline: 2px solid {ACCENT}; outline-offset: 1px;
      box-shadow: none; }}
    .bk-btn {{ font: 12px/1.3 {FACE}; border: 1px solid #c5ccd3; border-radius: 6px; background: white; color: {INK};
      padding: 3px 9px; }}
    .bk-btn:hover {{ border-color: {ACCENT}; color: {ACCENT}; background: white; }}
    .bk-btn:focus-visible {{ outline: 2px solid {ACCENT}; outline-offset: 2px; }}
    label span {{ font: 12px/1.5 {FACE}; color: {INK}; }}
    input[type=checkbox] {{ accent-color: {ACCENT}; }}
    """
TABLE = """
    select.bk-input { font: 11px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; padding: 3px; }
    label { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; }
    """
"""Of the list of runs, above which its columns are named."""
MONOSPACED: dict[str, str | None] = {
    "font": '11px/1.3 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', "color": FAINT,
    "white-space": "pre",
}  # fmt: skip
SPACE = "\N{NO-BREAK SPACE}"
LINES = 9
"""Of the list of runs that are seen at once."""


def select(title: str, options: Sequence[Any], value: str, **more: Any) -> Select:
    return Select(
        title=title, options=list(options), value=value, stylesheets=[LOOK], sizing_mode="stretch_width",
        margin=(0, 0, 8, 0), **more,
    )  # fmt: skip


def small_button(label: str, title: str) -> Button:
    attributes = {"title": title, "aria-label": title}
    return Button(label=label, stylesheets=[LOOK], margin=(0, 2, 8, 0), align="end", html_attributes=attributes)


def heading(words: str) -> Div:
    return Div(
        text=words, render_as_text=True, styles={"font": f"600 13px/1.3 {FACE}", "color": INK}, margin=(6, 0, 5, 0)
    )


def beside(*parts: UIElement) -> Row:
    return Row(children=list(parts), sizing_mode="stretch_width", margin=0, spacing=8)


# ------------------------------------------------------------------------------------------------------- page


class RunsPage:
    """Recorded runs for one visitor."""

    def __init__(self, paths: Sequence[Path | str] | Files) -> None:
        self.files = paths if isinstance(paths, Files) else Files([Path(path) for path in paths])
        names = list(self.files.paths)
        self.settings = RunsSettings()
        self.settings.param["file"].objects = names or [""]
        self.settings.param["other_file"].objects = [NONE, *names]
        self.settings.file = names[0] if names else ""
        self.screen: Screen | None = None
        self._waiting: list[tuple[int, np.ndarray]] = []
        self._quiet = self._settling = self._shown = False
        self._make_controls()
        self.title, self.facts = line("", 17, INK, bold=True), line("", 12, FAINT)
        self.message = line("", 13, "#8a4b08")
        self.message.update(visible=False, html_attributes={"role": "status"})
        self.bar = bar()
        self.told = Div(visible=False, tags=[])
        self.told.on_change("tags", self._looked_at)
        self.wall = ColumnOf(sizing_mode="stretch_width", margin=0)
        parts: list[UIElement] = [self.title, self.facts, self.message, self.bar, self.wall, self.told]
        main = ColumnOf(children=parts, sizing_mode="stretch_width")
        self.layout = Row(children=[self._side(), main], sizing_mode="stretch_width")
        self.settings.param.watch(self._changed, [name for name in self.settings.param if name not in ("name", "step")])

    # ---------------------------------------------------------------------------------------- for the page around

    def show(self) -> None:
        """It is looked at now: make it, unless it is there."""
        if not self._shown:
            self._shown = True
            self._renew(())

    def hide(self) -> None:
        """It is not looked at any more. The browser stops by itself."""

    @property
    def document(self) -> Document | None:
        return self.layout.document

    # --------------------------------------------------------------------------------------------------- controls

    def _make_controls(self) -> None:
        names = [(name, name) for name in self.files.paths]
        self.file = select("file", names, self.settings.file)
        self.wanted = select("which end", list(WANTED.items()), "all")
        self.kind = select("which are", [("", "of any kind")], "")
        self.order = select("in which order", list(ORDERS.items()), "place")
        self.runs = MultiSelect(
            title="runs", size=LINES, stylesheets=[LOOK, TABLE], sizing_mode="stretch_width", margin=(0, 0, 8, 0)
        )
        self.columns = Div(text="", render_as_text=True, margin=(0, 0, 2, 8), styles=MONOSPACED)
        self.other_file = select("with a run of", [(NONE, "none"), *names], NONE)
        self.other_run = select("that is", [], "")
        self.by = select("at the same", list(BY.items()), "clock")
        self.boxes: dict[str, CheckboxGroup] = {}  # one each, so that each is told by its own name
        self.shown = ColumnOf(margin=0, sizing_mode="stretch_width")
        self.size = select("size", [(size, size) for size in SIZES], "medium")
        self.few, self.all = small_button("a few", "Show a few panels"), small_button("all", "Show all panels")
        bound = {"file": self.file, "other_file": self.other_file, "by": self.by, "size": self.size}
        for name, widget in bound.items():
            widget.on_change("value", partial(self._chosen, name))
        for widget in (self.wanted, self.kind, self.order):
            widget.on_change("value", lambda attribute, old, new: self._list_runs())
        self.runs.on_change("value", self._run_chosen)
        self.other_run.on_change("value", lambda attribute, old, new: self._set(other_run=int(new) if new else None))
        self.few.on_click(lambda: self._set(panels=""))
        self.all.on_click(lambda: self._set(panels=",".join(self.names)))
        self.names: list[str] = []

    def _side(self) -> UIElement:
        parts: list[UIElement] = [
            *([self.file] if len(self.files.paths) > 1 else []), heading("Runs"), beside(self.wanted, self.kind),
            self.order, self.columns, self.runs, heading("Compare"), self.other_file, beside(self.other_run, self.by),
            heading("Panels"), beside(self.few, self.all, self.size), self.shown,
        ]  # fmt: skip
        return ColumnOf(children=parts, width=264, margin=(0, 24, 0, 0))

    def _settle(self, **values: Any) -> None:
        """Settings that the page chooses."""
        self._settling = True
        self.settings.param.update(**values)
        self._settling = False

    def _chosen(self, name: str, attribute: str, old: str, new: str) -> None:
        self._set(**{name: new})

    def _set(self, **values: Any) -> None:
        """Settings, by a person: at once, and not again where controls only show what is."""
        if not self._quiet:
            self.settings.param.update(**values)

    def _run_chosen(self, attribute: str, old: list[str], new: list[str]) -> None:
        fresh = [value for value in new if value not in old] or new
        if fresh and not self._quiet:
            self._set(run=int(fresh[0]))

    def _panels_chosen(self, attribute: str, old: list[int], new: list[int]) -> None:
        self._set(panels=",".join(name for name, box in self.boxes.items() if box.active))

    def _looked_at(self, attribute: str, old: list[float], new: list[float]) -> None:
        if new:
            self.settings.step = int(new[0])

    def _list_runs(self) -> None:
        """Runs as filters have them, with the one that is shown among them."""
        _, entries = self.files.opened(self.settings.file)
        found = chosen(entries, self.wanted.value, self.kind.value, self.order.value)
        header, lines = columns(found)
        self._quiet = True
        options = [(str(entry.place), line.replace(" ", SPACE)) for entry, line in zip(found, lines, strict=True)]
        value = [str(self.settings.run)] if any(entry.place == self.settings.run for entry in found) else []
        self.columns.text = header if found else "none is so"
        self.runs.update(options=options, value=value)
        self._quiet = False

    # ------------------------------------------------------------------------------------------------ what is shown

    def _changed(self, *events: Any) -> None:
        if self._shown and not self._settling:
            self._renew(tuple(event.name for event in events))

    def _renew(self, changed: Sequence[str]) -> None:
        """Show what the settings say, or say why that cannot be."""
        try:
            self._make(changed)
            self.message.visible = False
        except (SettingsError, TrajectoryError) as error:
            self._refuse(str(error))
        except OSError as error:
            self._refuse(f"{self.settings.file}: {error.strerror or error}")

    def _refuse(self, words: str) -> None:
        self.message.update(text=words, visible=True)
        self.title.update(text=self.settings.file, visible=True)
        self.facts.visible = False
        self.wall.children, self.screen, self._waiting = [], None, []

    def _make(self, changed: Sequence[str]) -> None:
        s = self.settings
        if not s.file:
            raise SettingsError("file", "none", "a trajectory, as in: python -m analysis.explore RUN.nc")
        trajectory, entries = self.files.opened(s.file)
        self._within(entries, changed)
        scenes = [scene(trajectory, s.run or 0, axes_of(s.axes), SIDE)]
        if s.other_file != NONE:
            scenes.append(scene(self.files.opened(s.other_file)[0], s.other_run or 0, axes_of(s.axes), SIDE))
        self.names = list(dict.fromkeys(panel.name for each in scenes for panel in each.panels))
        names = self._panels()
        step = s.step if self.screen is None else None
        screen = Screen(scenes, names, self.bar, self.told, step, s.by, s.size)
        self._show_controls(entries, names, scenes)
        self.title.text, self.facts.text = scenes[0].title, facts(scenes[0])
        self.title.visible = self.facts.visible = len(scenes) == 1  # each of two has its own
        screen.listen()
        self.screen, self.wall.children = screen, [screen.layout]
        self._send_when_painted()

    def _within(self, entries: Sequence[Entry], changed: Sequence[str]) -> None:
        """See that the runs are there; another file begins with a run of its own. Raises SettingsError."""
        s = self.settings
        if s.run is None or changed == ("file",):
            self._settle(run=first_to_show(entries))
        if s.other_file != NONE and (s.other_run is None or changed == ("other_file",)):
            others, same = self.files.opened(s.other_file)[1], s.other_file == s.file
            self._settle(other_run=next((e.place for e in others if not (same and e.place == s.run)), 0))
        if s.run is not None and s.run >= len(entries):
            raise SettingsError("run", s.run, f"a place from 0 to {len(entries) - 1}")

    def _panels(self) -> list[str]:
        """The panels to show. Raises SettingsError."""
        return chosen_panels(self.settings.panels, self.names) or first_panels(self.names)

    def _show_controls(self, entries: list[Entry], names: list[str], scenes: list[Scene]) -> None:
        """Make the controls say what the settings are."""
        s, self._quiet = self.settings, True
        kinds = sorted({kind for entry in entries for kind in entry.kinds})
        counts = {kind: sum(kind in entry.kinds for entry in entries) for kind in kinds}
        options: list[Any] = [("", "of any kind"), *((kind, f"{kind} ({counts[kind]})") for kind in kinds)]
        self.kind.options = options
        self.kind.visible = bool(kinds)
        if self.kind.value not in ("", *kinds):
            self.kind.value = ""
        self.file.value, self.other_file.value, self.by.value, self.size.value = s.file, s.other_file, s.by, s.size
        titles = {panel.name: panel.title for each in scenes for panel in each.panels}
        if list(self.boxes) != self.names:
            self.boxes = {name: CheckboxGroup(stylesheets=[LOOK], margin=0) for name in self.names}
            for box in self.boxes.values():
                box.on_change("active", self._panels_chosen)
            self.shown.children = list(self.boxes.values())
        for name, box in self.boxes.items():
            box.update(labels=[titles[name]], active=[0] if name in names else [])
        two = s.other_file != NONE
        self.other_run.visible = self.by.visible = two
        if two:
            others = self.files.opened(s.other_file)[1]
            words = ["seed " + " ".join(line.split()) for line in columns(others)[1]]
            options = [(str(other.place), word) for other, word in zip(others, words, strict=True)]
            self.other_run.options = options
            self.other_run.value = str(s.other_run)
        self._quiet = False
        self._list_runs()

    # ---------------------------------------------------------------------------------------------------- buffers

    def _send_when_painted(self) -> None:
        """The buffers, when the browser has painted the first frame."""
        document, context = self.document, self.document.session_context if self.document else None
        if document is None:
            return
        if context is not None and getattr(context, "session", None) is None:  # nobody is there yet
            document.on_event("document_ready", lambda event: self._send())
        else:
            document.add_next_tick_callback(self._send)

    def _send(self) -> None:
        """All but maps at once; maps after that, some frames at a time."""
        screen = self.screen
        if screen is None:
            return
        data: dict[str, np.ndarray] = {}
        self._waiting = []
        for lane, (each, frames) in enumerate(zip(screen.scenes, screen.frames, strict=True)):
            layers = layers_of(each, screen.panels)
            small = {name: layer for name, layer in layers.items() if not is_map(layer)}
            data |= {f"{lane}/{name}": buffer for name, buffer in pack(each, frames, small).items()}
            if len(small) < len(layers):
                self._waiting += [(lane, piece) for piece in from_coarse_to_fine(len(frames), MAP_FRAMES)]
        if len(screen.scenes) > 1:  # coarse ones of both first
            self._waiting.sort(key=lambda piece: int(np.diff(piece[1][:2], append=piece[1][:1] + 1)[0]), reverse=True)
        send(screen, data or {"nothing": np.zeros((1, 1), np.uint8)})
        self._go_on(screen)

    def _go_on(self, screen: Screen) -> None:
        if self._waiting and self.document is not None:
            self.document.add_timeout_callback(lambda: self._send_maps(screen), 20)

    def _send_maps(self, screen: Screen) -> None:
        if screen is not self.screen or not self._waiting:
            return
        lane, piece = self._waiting.pop(0)
        each, frames = screen.scenes[lane], screen.frames[lane]
        maps = {name: layer for name, layer in layers_of(each, screen.panels).items() if isinstance(layer, Map)}
        data = {f"{lane}/{name}": buffer for name, buffer in pack(each, frames[piece], maps).items()}
        send(screen, {**data, "frame": piece.astype(np.int32)})
        self._go_on(screen)


def send(screen: Screen, data: dict[str, np.ndarray]) -> None:
    """A parcel; its columns need not be of equal length."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        screen.parcel.data = data
