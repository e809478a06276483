"""The theme of the explorer: the palette of all pictures as style sheets and as a theme
of Bokeh, the font, and functions that make widgets.

Colours of texts and controls are CSS variables named after their meaning, such as
`--ink`, and follow the reader's colour scheme. Figures, which Bokeh paints, have the
colours of the style in use when they are made."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template as StyleTemplate
from typing import Any

from bokeh.models import Button, Div
from bokeh.themes import Theme
from jinja2 import Environment, FileSystemLoader, Template

from analysis.panels.colours import colour, css_colours

FACE = 'system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial, sans-serif'
_FOLDER = Path(__file__).parent


def style_sheet(name: str) -> str:
    """The style sheet NAME.css, with the theme's font."""
    text = (_FOLDER / f"{name}.css").read_text(encoding="utf-8")
    return StyleTemplate(text).substitute(face=FACE, colours=css_colours())


@functools.cache
def html_template(name: str) -> Template:
    """The HTML template NAME.html around a Bokeh document, with the scripts that it
    includes."""
    return Environment(loader=FileSystemLoader(_FOLDER)).get_template(f"{name}.html")


def script(*names: str) -> str:
    """The scripts NAME.js, one after the other."""
    files = [_FOLDER / f"{name}.js" for name in names]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


PAGE_STYLE = style_sheet("page")
"""Styles of the whole page."""

WIDGET_STYLES = style_sheet("widgets")
"""Styles of every widget."""

_NARROW = "@media (max-width: 860px)"
STACKED = (
    f"{_NARROW} {{ :host {{ display: grid !important; grid-template-columns: minmax(0,"
    " 1fr); } }"
)
"""Style of a row whose parts are below each other in a narrow window."""
LAST_IF_STACKED = f"{_NARROW} {{ :host {{ order: 1; }} }}"
"""Style of the part of such a row that is then the last."""


def page_theme() -> Theme:
    """Bokeh's theme in the style in use."""
    text = (_FOLDER / "theme.json").read_text(encoding="utf-8")
    names = ("accent", "background", "band", "faint", "muted")
    colours = {name: colour(name) for name in names}
    filled = StyleTemplate(text).substitute(colours, face=FACE.replace('"', "'"))
    attributes = json.loads(filled)
    attributes["Plot"]["stylesheets"] = [style_sheet("figure")]
    attributes["Widget"]["stylesheets"] = [WIDGET_STYLES]
    return Theme(json={"attrs": attributes})


def text_div(
    words: str, size: int = 13, colour: str = "ink", margin: Any = 0, **styles: Any
) -> Div:
    """Plain text without markup. colour: the meaning of its colour. margin: as in
    Bokeh. styles: CSS properties, with _ for -."""
    named = {name.replace("_", "-"): value for name, value in styles.items()}
    looks = {"font-size": f"{size}px", "color": f"var(--{colour})", **named}
    fill: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": margin}
    return Div(text=words, render_as_text=True, styles=looks, **fill)


def notice_div() -> Div:
    """An element for error messages, which screen readers announce; hidden while
    empty."""
    made = text_div("", 13, "warning", (0, 0, 12, 0), white_space="pre-wrap")
    made.update(visible=False, html_attributes={"role": "status"})
    return made


def make_button(
    label: str,
    press: Callable[[], None] | None = None,
    title: str = "",
    classes: Sequence[str] = (),
    **more: Any,
) -> Button:
    """A button. title: its name, if the label is a symbol. Buttons of the class `small`
    are smaller."""
    attributes = {"title": title} if title else {}
    looks = {"margin": (0, 6, 6, 0), "html_attributes": attributes, **more}
    made = Button(label=label, css_classes=list(classes), **looks)
    if press is not None:
        made.on_click(press)
    return made
