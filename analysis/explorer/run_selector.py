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
from analysis.output.counts import count_of

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
_ONE_COLUMN = "@media (min-width: 861px) { :host { display: contents !important; } }"
_BESIDE_EACH_OTHER = """@media (max-width: 860px) {
    :host { display: grid !important; width: auto !important; margin: 16px 0 0 !important; gap: 0 32px;
        grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
}"""
"""Styles of two groups of controls: one column beside the panels, and below the panels of
a narrow window beside each other."""
_BESIDE = [WIDGET_STYLES, style_sheet("beside")]
"""Styles of a select with its label at the left."""


class RunSelector:
    """Controls for the view settings: changes by the user set them, and `show` displays
    them."""

    def __init__(self, settings: ViewSettings, files: Sequence[str]) -> None:
        """files: names of files."""
        self.settings = settings
        self.names = list[str]()
        self.entries: list[RunEntry] = []
        self.panels: Sequence[str] = ()
        """Names of all panels, and of those that are shown."""
        several = [(NO_CHOICE, "none"), *((name, name) for name in files)]
        self.file = self._select("file", list(files), self._set("file"))
        self.file.visible = len(files) > 1
        self.about = text_div("", 12, "muted", (0, 0, 6, 0))
        self.group = self._select("show", [], self._list_runs)
        orders = [(field, order.label) for field, order in RUN_ORDERS.items()]
        self.order = self._select("order", orders, self._list_runs, "run")
        mono = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
        looks = {"font_family": mono, "white_space": "pre"}
        self.header = text_div("", 11, "muted", (0, 0, 2, 8), **looks)
        sheets = [WIDGET_STYLES, style_sheet("run_list")]
        self.runs = MultiSelect(
            title="runs", css_classes=["run-list"], stylesheets=sheets
        )
        self.runs.on_change("value", self._choose_run)
        other = self._set("other_file")
        self.other_file = self._select("second file", several, other)
        self.other_run = self._select("second run", [], self._choose_other_run)
        self.boxes = CheckboxGroup(stylesheets=[WIDGET_STYLES, style_sheet("boxes")])
        self.boxes.on_change("active", self._choose_panels)
        choose = self._set("panels")
        main = make_button("main panels", lambda: choose(""), classes=["small"])
        every = make_button(
            "all panels", lambda: choose(",".join(self.names)), classes=["small"]
        )
        runs = (
            self.file,
            _heading("Runs"),
            self.about,
            self.group,
            self.order,
            self.header,
            self.runs,
        )
        rest = (
            _heading("Compare"),
            self.other_file,
            self.other_run,
            _heading("Panels"),
            Row(main, every, margin=(0, 0, 6, 0)),
            self.boxes,
        )
        self.layout = Column(
            Column(*runs, stylesheets=[_ONE_COLUMN]),
            Column(*rest, stylesheets=[_ONE_COLUMN]),
            width=264,
            margin=(0, 24, 0, 0),
            stylesheets=[LAST_IF_STACKED, _FULL_HEIGHT, _BESIDE_EACH_OTHER],
        )

    def _select(
        self,
        title: str,
        options: list,
        choose: Callable[[str], None],
        value: str = "",
    ) -> Select:
        """A select that calls a function with its new value."""
        made = Select(title=title, options=options, value=value, stylesheets=_BESIDE)
        made.on_change("value", lambda attribute, old, new: choose(new))
        return made

    # -------------------------------------------------------------- changes by the user

    def _set(self, name: str) -> Callable[[Any], None]:
        """A function that sets a setting."""
        return partial(setattr, self.settings, name)

    def _choose_run(self, attribute: str, old: list[str], new: list[str]) -> None:
        if fresh := [value for value in new if value not in old] or new:
            self.settings.run = int(fresh[0])

    def _choose_other_run(self, new: str) -> None:
        if new:
            self.settings.other_run = int(new)

    def _choose_panels(self, attribute: str, old: list[int], new: list[int]) -> None:
        names = [self.names[box] for box in sorted(new)]
        if names != self.panels:
            self.settings.panels = ",".join(names) or NO_CHOICE

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
        s = self.settings
        self.entries = entries
        self.names = list(titles)
        self.panels = panels
        self.file.value = s.file
        self.other_file.value = s.other_file
        facts = [count_of(len(entries), "run")]
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
        second = [(str(other.run), other.text) for other in others]
        chosen = str(s.other_run) if second else ""
        self.other_run.update(options=second, value=chosen, visible=bool(second))
        self._list_runs()

    def _list_runs(self, new: str = "") -> None:
        """List the runs of the group, with a mark at the one that is shown."""
        group = self.group.value
        runs = [entry for entry in self.entries if not group or group in entry.groups]
        runs = sort_runs(runs, self.order.value)
        indices = [str(entry.run) for entry in runs]
        self.header.text, *lines = run_table_lines(runs)
        lines = [line.replace(" ", _SPACE) for line in lines]
        few = _LINE * max(min(len(lines), _LINES), 2) + 2
        self.runs.update(
            options=list(zip(indices, lines, strict=True)),
            value=[index for index in indices if index == str(self.settings.run)],
            styles={
                "flex": f"1 1 {few}px",
                "min-height": f"{few}px",
                "max-height": f"{_LINE * max(len(lines), 2) + 2}px",
            },
        )


def _heading(words: str) -> UIElement:
    return text_div(words, 13, margin=(6, 0, 5, 0), font_weight="600")
