"""The controls beside the panels of recorded runs: choice of a run, of a second run to
compare, and of panels."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bokeh.models import CheckboxGroup, Column, MultiSelect, Row, Select, UIElement

from analysis.explorer.catalogue import (
    RUN_ORDERS,
    RunEntry,
    filter_runs,
    run_endings,
    run_table_lines,
)
from analysis.explorer.screen import PANEL_SIZES
from analysis.explorer.theme import (
    FAINT,
    INK,
    LAST_IF_STACKED,
    WIDGET_STYLES,
    make_button,
    select_widget,
    text_div,
)
from analysis.explorer.timeline import COMPARE_BY
from analysis.explorer.view_settings import NO_CHOICE, ViewSettings

_MONOSPACED = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
_TABLE_STYLE = f"""
    select.bk-input {{ font: 11px/16px {_MONOSPACED}; padding: 0 3px; }}
    option {{ height: 16px; min-height: 16px; padding: 0 2px; box-sizing: border-box; }}
    label {{ position: absolute; clip-path: inset(50%); width: 1px; height: 1px; }}
    :host {{ container-type: size; }}
    select.bk-input {{ flex: none; height: calc(round(down, 100cqh - 2px, 16px) + 2px) !important; }}
    select.bk-input::-webkit-scrollbar {{ width: 9px; }}
    select.bk-input::-webkit-scrollbar-thumb {{ background: #9aa5b1; border-radius: 4px; }}
    """
"""Style of the list of runs and its header."""
_SPACE = "\N{NO-BREAK SPACE}"
_LINE = 16
"""Height of a line of the list of runs, in pixels."""
_LINES = 8
"""Smallest number of visible lines of a list of many runs."""
_FULL_HEIGHT = (
    "@media (min-width: 861px) { :host { height: calc(100vh - 88px) !important; } }"
)
"""Style of the controls beside the panels; the list of runs takes the height that the
others leave."""
_LABEL_BESIDE = """
    .bk-input-group { flex-direction: row; align-items: center; gap: 8px; }
    label { flex: none; width: 78px; }
    """
"""Style of a select with its label at the left."""
_TWO_COLUMNS: dict[str, str | None] = {
    "display": "block",
    "columns": "2",
    "column-gap": "6px",
}
_WRAPPED_LABEL = """
    :host { break-inside: avoid; max-width: 100%; }
    label { display: flex; gap: 4px; align-items: flex-start; white-space: normal; min-height: 25px; }
    label span { line-height: 1.25; padding-bottom: 2px; white-space: normal; }
    input { margin-top: 1px; }
    """
"""Style of a check box in a narrow column."""


class RunSelector:
    """Controls for the view settings: changes by the user set them, and `show` displays
    them."""

    def __init__(
        self, settings: ViewSettings, files: Sequence[str], changed: Callable[..., Any]
    ) -> None:
        """files: names of files. changed: called with the settings that the user has
        chosen."""
        self.settings, self.changed = settings, changed
        self.entries: list[RunEntry] = []
        self.names: list[str] = []
        self._quiet = False
        self._make_runs(files)
        self._make_compared(files)
        self._make_panels()
        self._bind()
        parts = [
            *([self.file] if len(files) > 1 else []),
            _heading("Runs"),
            self.about,
            _row(self.ending, self.kind),
            self.order,
            self.columns,
            self.runs,
            _heading("Compare"),
            self.other_file,
            self.other_run,
            self.by,
            _heading("Panels"),
            _row(self.few, self.all, self.size),
            self.boxes_of_panels,
        ]
        styles = [LAST_IF_STACKED, _FULL_HEIGHT]
        self.layout = Column(
            children=parts, width=264, margin=(0, 24, 0, 0), stylesheets=styles
        )

    def _make_runs(self, files: Sequence[str]) -> None:
        beside: dict[str, Any] = {"stylesheets": [WIDGET_STYLES, _LABEL_BESIDE]}
        self.file = select_widget("file", list(files), self.settings.file, **beside)
        self.ending = select_widget("final accuracy", [("all", "all runs")], "all")
        self.kind = select_widget("kind of run", [("", "any")], "")
        self.order = select_widget("order", list(RUN_ORDERS.items()), "place", **beside)
        styles = [WIDGET_STYLES, _TABLE_STYLE]
        self.about = text_div("", 12, FAINT, (0, 0, 6, 0))
        self.runs = MultiSelect(
            title="runs",
            css_classes=["run-list"],
            stylesheets=styles,
            sizing_mode="stretch_width",
            margin=(0, 0, 8, 0),
        )
        self.columns = text_div(
            "",
            11,
            FAINT,
            (0, 0, 2, 8),
            font_family=_MONOSPACED,
            line_height="1.3",
            white_space="pre",
        )

    def _make_compared(self, files: Sequence[str]) -> None:
        options = [(NO_CHOICE, "none"), *((name, name) for name in files)]
        beside: dict[str, Any] = {"stylesheets": [WIDGET_STYLES, _LABEL_BESIDE]}
        self.other_file = select_widget("second file", options, NO_CHOICE, **beside)
        self.other_run = select_widget("second run", [], "", **beside)
        self.by = select_widget(
            "aligned by", list(COMPARE_BY.items()), "clock", **beside
        )

    def _make_panels(self) -> None:
        self.boxes: dict[
            str, CheckboxGroup
        ] = {}  # one group each, so that each has its own label for screen readers
        self.boxes_of_panels = Column(
            margin=0, sizing_mode="stretch_width", styles=_TWO_COLUMNS
        )
        narrow = _LABEL_BESIDE.replace("78px", "auto")
        self.size = select_widget(
            "size", list(PANEL_SIZES), "medium", stylesheets=[WIDGET_STYLES, narrow]
        )
        looks: dict[str, Any] = {
            "classes": ["small"],
            "margin": (0, 2, 8, 0),
            "align": "center",
        }
        self.few = make_button(
            "main", lambda: self._set(panels=""), "Show the main panels", **looks
        )
        self.all = make_button(
            "all",
            lambda: self._set(panels=",".join(self.names)),
            "Show all panels",
            **looks,
        )

    def _bind(self) -> None:
        bound = {
            "file": self.file,
            "other_file": self.other_file,
            "by": self.by,
            "size": self.size,
        }
        for name, widget in bound.items():
            widget.on_change("value", partial(self._chosen, name))
        for widget in (self.ending, self.kind, self.order):
            widget.on_change("value", lambda attribute, old, new: self._list_runs())
        self.runs.on_change("value", self._run_chosen)
        self.other_run.on_change(
            "value",
            lambda attribute, old, new: self._set(other_run=int(new) if new else None),
        )

    # -------------------------------------------------------------- changes by the user

    def _set(self, **values: Any) -> None:
        """Pass on settings that the user has changed; ignore changes made by `show`."""
        if not self._quiet:
            self.changed(**values)

    def _chosen(self, name: str, attribute: str, old: str, new: str) -> None:
        self._set(**{name: new})

    def _run_chosen(self, attribute: str, old: list[str], new: list[str]) -> None:
        fresh = [value for value in new if value not in old] or new
        if fresh:
            self._set(run=int(fresh[0]))

    def _panels_chosen(self, attribute: str, old: list[int], new: list[int]) -> None:
        self._set(
            panels=",".join(name for name, box in self.boxes.items() if box.active)
            or NO_CHOICE
        )

    # -------------------------------------------------------------------------- display

    def show(
        self,
        entries: list[RunEntry],
        others: Sequence[RunEntry],
        titles: dict[str, str],
        panels: Sequence[str],
        split: str = "",
    ) -> None:
        """Display the settings.

        entries, others: the runs of both files; titles: of all panels, by name; shown:
        names of panels; split: that of the accuracies and losses of the list."""
        s, self.entries, self._quiet = self.settings, entries, True
        self.file.value = s.file
        self.other_file.value = s.other_file
        self.by.value = s.by
        self.size.value = s.size
        said = (
            f"{len(entries)} run{'s' * (len(entries) != 1)}; accuracy (acc), loss:"
            f" {split} split, last step" * bool(split)
        )
        if any(entry.successful for entry in entries):
            said += "; first shown: first above .98"
        if running := sum(entry.status == "running" for entry in entries):
            said = "; ".join(filter(None, (said, f"{running} in progress")))
        self.about.update(text=said, visible=bool(said))
        self._show_kinds()
        self._show_boxes(titles, panels)
        two = s.other_file != NO_CHOICE
        self.other_run.visible = self.by.visible = two
        if two:
            options = [(str(other.place), other.words) for other in others]
            self.other_run.update(options=options, value=str(s.other_run))
        self._quiet = False
        self._list_runs()

    def _show_kinds(self) -> None:
        """Filters that distinguish between the runs."""
        counts = Counter(kind for entry in self.entries for kind in entry.kinds)
        options = [
            ("", "any"),
            *((kind, f"{kind} ({counts[kind]})") for kind in sorted(counts)),
        ]
        endings = run_endings(self.entries)
        for widget, some in (
            (self.kind, options),
            (self.ending, list(endings.items())),
        ):
            value = (
                widget.value
                if any(widget.value == item for item, _ in some)
                else some[0][0]
            )
            widget.update(options=some, value=value, visible=len(some) > 1)

    def _show_boxes(self, titles: dict[str, str], panels: Sequence[str]) -> None:
        if list(self.boxes) != list(titles):
            self.names = list(titles)
            styles = [WIDGET_STYLES, _WRAPPED_LABEL]
            self.boxes = {
                name: CheckboxGroup(stylesheets=styles, margin=0) for name in titles
            }
            for box in self.boxes.values():
                box.on_change("active", self._panels_chosen)
            self.boxes_of_panels.children = list(self.boxes.values())
        for name, box in self.boxes.items():
            box.update(labels=[titles[name]], active=[0] if name in panels else [])

    def _list_runs(self) -> None:
        """The runs that pass the filters, and the run that is shown."""
        if self._quiet:
            return
        runs = filter_runs(
            self.entries, self.ending.value, self.kind.value, self.order.value
        )
        header, lines = run_table_lines(runs)
        self._quiet = True
        options = [
            (str(entry.place), line.replace(" ", _SPACE))
            for entry, line in zip(runs, lines, strict=True)
        ]
        value = (
            [str(self.settings.run)]
            if any(entry.place == self.settings.run for entry in runs)
            else []
        )
        self.columns.text = header if runs else "no run matches"
        few, most = (
            _LINE * max(min(len(options), some), 2) + 2
            for some in (_LINES, len(options))
        )
        styles = {
            "flex": f"1 1 {few}px",
            "min-height": f"{few}px",
            "max-height": f"{most}px",
        }
        self.runs.update(options=options, value=value, styles=styles)
        self._quiet = False


def _heading(words: str) -> UIElement:
    return text_div(words, 13, INK, (6, 0, 5, 0), font_weight="600")


def _row(*parts: UIElement) -> Row:
    """Parts beside each other, at most two selects in a row."""
    for part in parts:
        part.min_width = 124 if isinstance(part, Select) else 0
    return Row(
        children=list(parts),
        sizing_mode="stretch_width",
        margin=0,
        spacing=8,
        styles={"flex-wrap": "wrap"},
    )
