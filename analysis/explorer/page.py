"""The page: its tabs, of which only the visible one computes, and its address (URL),
which holds the view settings."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import param
from bokeh.core.templates import FILE
from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.models import Column, CustomJS, Div, RadioButtonGroup, Row, UIElement

from analysis.explorer import url_state
from analysis.explorer.live_page import LivePage
from analysis.explorer.live_particles import ParticlesPage
from analysis.explorer.live_training import TrainingPage
from analysis.explorer.live_transformer import TransformerPage
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.recorded_runs import RunsPage
from analysis.explorer.server import NONCE_PLACEHOLDER
from analysis.explorer.theme import (
    FACE,
    PAGE_STYLE,
    html_template,
    make_button,
    notice_div,
    page_theme,
    style_sheet,
    text_div,
)
from analysis.panels.style import StyleName, style_in_use
from dynamics.errors import MissingPackage
from dynamics.settings import SettingsError

_TITLE = "training dynamics"
_WRITE_ADDRESS_CODE = """
    clearTimeout(window.address)
    window.address = setTimeout(() => history.replaceState(null, "",
        "?" + address.text + (address.text.includes("tab=story") ? location.hash : "")), 250)
"""
"""The delay is needed because browsers allow only about 200 changes of the address in
30 s."""


_PREPARE_CODE = "show_preparing([body, introduction], names[this.active])"
_NARROW_HEADING = """@media (max-width: 480px) { /* the tools beside the title */
    :host { margin-bottom: 8px !important; }
    .title { flex: 1 0 auto; margin: 0 !important; white-space: nowrap; align-self: center; font-size: 15px !important; }
    .tools { margin: 0 !important; }
    .tabs { order: 1; margin: 0 !important; }
    .introduction { order: 2; }
}"""


class StaticTab:
    """A tab without settings, whose content runs in the browser alone: a message, or
    the story. It also says what the page needs of every tab."""

    def __init__(self, layout: UIElement) -> None:
        """layout: the Bokeh models of the tab."""
        self.settings = param.Parameterized()
        self.layout = layout

    def show(self) -> None:
        """The tab becomes visible."""

    def hide(self, briefly: bool = False) -> None:
        """The tab becomes hidden and stops computing. briefly: what was running goes on
        with `show`."""

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view, if there is one. columns: number of panels
        of a run in a row, 0 if unknown."""
        return ""


Tab = StaticTab | RunsPage | LivePage


class Page:
    """All tabs for one visitor."""

    def __init__(
        self,
        document: Document,
        makers: dict[str, Callable[[], Tab]],
        first: str,
        style: StyleName = "screen",
    ) -> None:
        """makers: functions that make each tab when it is first opened, by name; first:
        the tab that opens by default; style: of figures. Reads the address of the
        document's request."""
        self.makers = makers
        self.names = list(makers)
        self.made: dict[str, Tab] = {}
        self.reached: dict[str, list[bytes]] = {}
        """Settings of the particles that the reader has chosen in the story."""
        self.open_tab = ""
        labels = [name.capitalize() for name in makers]
        margin = (0, 24, 0, 0)
        self.tabs = RadioButtonGroup(labels=labels, margin=margin, css_classes=["tabs"])
        self.message = notice_div()
        self.introduction = text_div("", 12, "muted", align_self="center")
        self.introduction.update(min_width=320, css_classes=["introduction"])
        self.address = Div(visible=False, name="address")
        self.body = Column(sizing_mode="stretch_width")
        self.asked = Div(visible=False, name="asked")
        self.code = Div(visible=False, name="code")
        self.asked.on_change("tags", lambda attribute, old, new: self._answer(*new))
        self.code.js_on_change("tags", CustomJS(code="copy_from_page(...this.tags)"))
        write = CustomJS(args={"address": self.address}, code=_WRITE_ADDRESS_CODE)
        self.address.js_on_change("text", write)
        prepare = CustomJS(
            args={
                "body": self.body,
                "introduction": self.introduction,
                "names": labels,
            },
            code=_PREPARE_CODE,
        )
        self.tabs.js_on_change("active", prepare)
        self.body.js_on_change("children", CustomJS(code="show_prepared()"))
        document.js_on_event(DocumentReady, write)  # the first tab
        document.add_root(
            Column(
                self._heading(),
                self.message,
                self.body,
                self.address,
                self.asked,
                self.code,
                sizing_mode="stretch_width",
            )
        )
        document.title = _TITLE
        document.template = html_template("page")
        document.template_variables.update(
            base=FILE, nonce=NONCE_PLACEHOLDER, look=PAGE_STYLE, face=FACE, style=style
        )
        context = document.session_context
        arguments = context.request.arguments if context else {}
        names: Any = param.Selector(default=first, objects=self.names)
        choice: Any = param.parameterized_class("Choice", {"tab": names})()
        others = [name for name in arguments if name != "tab"]
        refused = url_state.read_url_state(arguments, choice, others)
        self.tabs.active = self.names.index(choice.tab)
        self.show_tab(choice.tab, arguments, refused)
        self.tabs.on_change(
            "active", lambda attribute, old, new: self.show_tab(self.names[new])
        )

    def _heading(self) -> UIElement:
        title = text_div(_TITLE, 17, margin=(4, 28, 0, 0), font_weight="650")
        title.update(sizing_mode=None, css_classes=["title"])
        tools = [
            make_button("Copy link", classes=["small", "copy-link"]),
            make_button("Copy Python", classes=["small", "copy-python"]),
            make_button("?", title="Keys: ?", classes=["small", "show-help"]),
        ]
        return Row(
            title,
            self.tabs,
            Row(
                *tools,
                margin=(3, 18, 0, 0),
                css_classes=["tools"],
                stylesheets=[
                    "@media (pointer: coarse) { .show-help { display: none; } }"
                ],
            ),
            self.introduction,
            sizing_mode="stretch_width",
            margin=(14, 0, 16, 0),
            stylesheets=[_NARROW_HEADING],
            styles={"flex-wrap": "wrap", "row-gap": "6px"},
        )

    def show_tab(
        self,
        name: str,
        arguments: Mapping[str, Sequence[bytes]] | None = None,
        refused: Sequence[SettingsError] = (),
    ) -> None:
        """Open a tab. arguments: settings in the address; refused: those that were
        rejected."""
        if self.open_tab:
            self.made[self.open_tab].hide()
        if name not in self.made:
            try:
                self.made[name] = self.makers[name]()
            except MissingPackage as error:
                self.made[name] = _message_tab(f"{error}")
            if name == "particles":
                arguments = arguments or self.reached or self._shown_particles()
            settings = self.made[name].settings
            settings.param.watch(
                self._write_address, url_state.url_setting_names(settings)
            )
        tab = self.made[name]
        self.open_tab = name
        of_tab = url_state.read_url_state(arguments or {}, tab.settings, ("tab",))
        errors = [*refused, *of_tab]
        lines = [f"In the address: {error}. The default is used." for error in errors]
        self.message.update(text="\n".join(lines), visible=bool(lines))
        introduction = _INTRODUCTIONS.get(name, "")
        self.introduction.update(text=introduction, visible=bool(introduction))
        self.body.children = [tab.layout]
        tab.show()
        self._write_address()

    def _shown_particles(self) -> dict[str, list[bytes]]:
        """Settings of the recorded particles that are shown."""
        runs = self.made.get("runs")
        return runs.particle_arguments() if isinstance(runs, RunsPage) else {}

    def _answer(self, question: str, *values: Any) -> None:
        """Answer the page's script: Python was asked for, the story reached a setting,
        or the browser's tab became hidden or visible."""
        tab = self.made[self.open_tab]
        if question == "python":
            number, columns = values
            self.code.tags = ["Python", tab.python(columns), number]
        elif question == "reached":
            fa, seed = values
            self.reached = {"fa": [f"{fa:g}".encode()], "seed": [str(seed).encode()]}
        elif question == "hidden":
            tab.hide(briefly=True)
        else:
            tab.show()

    def _write_address(self, *events: Any) -> None:
        """Write the view into the address."""
        settings = self.made[self.open_tab].settings
        self.address.text = url_state.url_query(settings, {"tab": self.open_tab})


_NO_RUNS = """<p>No trajectories were given. Record some runs on the computer where this page
comes from, with the first command, which prints the path of their file. The second command
shows them.</p>
<div class="command"><code>python -m sims.particles --fa 2.0</code> <button class="copy-command">Copy</button></div>
<div class="command"><code>python -m analysis.explore runs/FILE.nc</code> <button class="copy-command">Copy</button></div>
<p>The other tabs need no recorded runs.</p>"""


_INTRODUCTIONS = {
    "runs": "A recorded run, in panels. Drag the slider, or press play. Marks show"
    " where the loss (for particles, the force) drops or jumps.",
    "particles": "Equal sums attract each other, different ones repel. Raise the"
    " alignment while it runs, and the cloud opens into a circle.",
    "training": "A network learns to add from examples. Compare its points with the"
    " particles from the same start: do both form the same shape?",
    "transformer": "A transformer learns to add. Its numbers form circles while the"
    " share of correct sums of the test split, on which it is not trained, rises.",
}
"""A sentence or two beside the tabs: what they show, and what to look for."""

_STORY = """<training-story><ul>
<li><a href="?tab=particles" data-setting="tab=particles">Particles with the alignment and seed of chapter 3</a>: drag points, change every force.</li>
<li><a href="?tab=training">A network in training</a>, beside particles from its start.</li>
<li><a href="?tab=transformer">A transformer that learns to add</a>: its circles appear.</li>
<li><a href="?tab=runs">Recorded runs</a>: your own, and how to make them.</li>
</ul></training-story>"""


def _message_tab(words: str) -> StaticTab:
    """A tab that holds only a message."""
    return StaticTab(text_div(words, 14, margin=(20, 0, 0, 0), white_space="pre-wrap"))


def _no_runs_tab() -> StaticTab:
    """The tab of recorded runs without any."""
    styles = [style_sheet("commands")]
    return StaticTab(
        Div(text=_NO_RUNS, stylesheets=styles, sizing_mode="stretch_width")
    )


def fill_document(document: Document, files: OpenFiles) -> None:
    """Fill a visitor's document with all tabs, in the style that its cookie names.
    files: those of the command line, shared by all visitors."""
    context = document.session_context
    cookies = context.request.cookies if context else {}
    style: StyleName = "dark" if cookies.get("style") == "dark" else "screen"
    recorded = partial(RunsPage, files, style)
    tabs: dict[str, Callable[[], Tab]] = {
        "story": partial(StaticTab, Div(text=_STORY, sizing_mode="stretch_width")),
        "runs": recorded if files.paths else _no_runs_tab,
        "particles": partial(ParticlesPage, document, style),
        "training": partial(TrainingPage, document, style),
        "transformer": partial(TransformerPage, document, style),
    }
    with style_in_use(style):
        document.theme = page_theme()
    Page(document, tabs, "runs" if files.paths else "story", style)
