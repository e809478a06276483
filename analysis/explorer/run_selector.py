"""The controls beside the panels of recorded runs: choice of a run, of a second run to
compare, and of panels."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from bokeh.models import CheckboxGroup, Column, MultiSelect, Row, Select, UIElement

from analysis.explorer.catalogue import (
    RUN_ORDERS,
    RunEntry,
    run_table_lines,
    sort_runs,
)
from analysis.explorer.theme import (
    LAST_IF_STACKED,
    WIDGET_STYLES,
    make_button,
    style_sheet,
    text_div,
)
from analysis.explorer.view_settings import NO_CHOICE, ViewSettings

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
_BESIDE = [WIDGET_STYLES, style_sheet("beside")]
"""Styles of a select with its label at the left."""


class RunSelector:
    """Controls for the view settings: changes by the user set them, and `show` displays
    them."""

    def __init__(self, settings: ViewSettings, files: Sequence[str]) -> None:
        """files: names of files."""
        self.settings, self.names = settings, list[str]()
        self.entries: list[RunEntry] = []
        self._quiet = True  # until the settings are displayed
        several = [(NO_CHOICE, "none"), *((name, name) for name in files)]
        self.file = self._select("file", list(files), "file")
        self.file.visible = len(files) > 1
        self.about = text_div("", 12, "muted", (0, 0, 6, 0))
        self.group = self._select("show", [])
        self.order = self._select("order", list(RUN_ORDERS.items()))
        self.order.value = "place"
        mono = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
        place = (0, 0, 2, 8)
        self.header = text_div(
            "", 11, "muted", place, font_family=mono, white_space="pre"
        )
        self.runs = MultiSelect(
            title="runs",
            css_classes=["run-list"],
            stylesheets=[WIDGET_STYLES, style_sheet("run_list")],
        )
        self.runs.on_change("value", self._choose_run)
        self.other_file = self._select("second file", several, "other_file")
        self.other_run = self._select("second run", [])
        self.other_run.on_change(
            "value",
            lambda attribute, old, new: self._set(other_run=int(new) if new else None),
        )
        styles = [WIDGET_STYLES, style_sheet("boxes")]
        self.boxes = CheckboxGroup(stylesheets=styles)
        self.boxes.on_change("active", self._choose_panels)
        self.layout = Column(
            self.file,
            _heading("Runs"),
            self.about,
            self.group,
            self.order,
            self.header,
            self.runs,
            _heading("Compare"),
            self.other_file,
            self.other_run,
            _heading("Panels"),
            Row(*self._panel_buttons(), margin=(0, 0, 6, 0)),
            self.boxes,
            width=264,
            margin=(0, 24, 0, 0),
            stylesheets=[LAST_IF_STACKED, _FULL_HEIGHT],
        )

    def _select(self, title: str, options: list, setting: str = "") -> Select:
        """A select of a setting, or of which runs are listed."""
        made = Select(title=title, options=options, stylesheets=_BESIDE)
        made.on_change("value", partial(self._choose, setting))
        return made

    def _panel_buttons(self) -> list[UIElement]:
        def show_all() -> None:
            self._set(panels=",".join(self.names))

        main = partial(self._set, panels="")
        return [
            make_button("main panels", main, classes=["small"]),
            make_button("all panels", show_all, classes=["small"]),
        ]

    # -------------------------------------------------------------- changes by the user

    def _set(self, **values: Any) -> None:
        """Set settings that the user has changed; ignore changes made by `show`."""
        if not self._quiet:
            self.settings.param.update(**values)

    def _choose(self, setting: str, attribute: str, old: str, new: str) -> None:
        if setting:
            self._set(**{setting: new})
        elif not self._quiet:
            self._list_runs()

    def _choose_run(self, attribute: str, old: list[str], new: list[str]) -> None:
        if fresh := [value for value in new if value not in old] or new:
            self._set(run=int(fresh[0]))

    def _choose_panels(self, attribute: str, old: list[int], new: list[int]) -> None:
        names = [self.names[box] for box in sorted(new)]
        self._set(panels=",".join(names) or NO_CHOICE)

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

        entries, others: the runs of both files; titles: of all panels, by name; panels:
        names of those that are shown; split: that of the accuracies and losses of the
        list."""
        s, self.entries, self.names = self.settings, entries, [*titles]
        self._quiet = True
        self.file.value, self.other_file.value = s.file, s.other_file
        facts = [f"{len(entries)} run{'s' * (len(entries) != 1)}"]
        if split:
            facts.append(f"accuracy (acc), loss: {split} split, last step")
        if any(entry.imperfections is not None for entry in entries):
            facts.append("imp: grid imperfections")
        self.about.text = "; ".join(facts)
        groups = Counter(group for entry in entries for group in entry.groups)
        options = [
            ("", "all"),
            *((name, f"{name} ({groups[name]})") for name in groups),
        ]
        value = self.group.value if self.group.value in groups else ""
        self.group.update(options=options, value=value, visible=bool(groups))
        active = [place for place, name in enumerate(titles) if name in panels]
        self.boxes.update(labels=list(titles.values()), active=active)
        second = [(str(other.place), other.words) for other in others]
        self.other_run.update(options=second, visible=bool(second))
        self.other_run.value = str(s.other_run) if second else ""
        self._list_runs()
        self._quiet = False

    def _list_runs(self) -> None:
        """List the runs of the group, with a mark at the one that is shown."""
        group, quiet, self._quiet = self.group.value, self._quiet, True
        runs = [entry for entry in self.entries if not group or group in entry.groups]
        runs = sort_runs(runs, self.order.value)
        places = [str(entry.place) for entry in runs]
        self.header.text, *lines = run_table_lines(runs)
        lines = [line.replace(" ", _SPACE) for line in lines]
        few = _LINE * max(min(len(lines), _LINES), 2) + 2
        self.runs.update(
            options=list(zip(places, lines, strict=True)),
            value=[place for place in places if place == str(self.settings.run)],
            styles={
                "flex": f"1 1 {few}px",
                "min-height": f"{few}px",
                "max-height": f"{_LINE * max(len(lines), 2) + 2}px",
            },
        )
        self._quiet = quiet


def _heading(words: str) -> UIElement:
    return text_div(words, 13, margin=(6, 0, 5, 0), font_weight="600")
