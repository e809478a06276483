"""The theme of the explorer: colours, font, styles of widgets, and functions that make
styled widgets.

Blue, ink and grey have a contrast of at least 4.5 to 1 on the background, as WCAG 2
requires for small text."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template as StyleTemplate
from typing import Any

import param
from bokeh.models import Button, Div, Select
from jinja2 import Environment, FileSystemLoader, Template

from analysis.panels.colours import colour

ACCENT = "#0b6fa4"
INK, FAINT = colour("ink"), colour("muted")
"""Colours of text and of secondary text."""
WARNING = "#8a4b08"
PAPER = "#fbfbfa"
BORDER, RULE = "#c5ccd3", "#d9dee3"
"""Colours of controls' borders, and of figures' frames and grids."""
FACE = 'system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial, sans-serif'


def style_sheet(name: str, **more: str) -> str:
    """The style sheet NAME.css with the theme's colours and font, and `more` values of
    its placeholders."""
    values = {
        "accent": ACCENT,
        "ink": INK,
        "faint": FAINT,
        "paper": PAPER,
        "border": BORDER,
        "face": FACE,
        **more,
    }
    return StyleTemplate(
        (Path(__file__).parent / f"{name}.css").read_text(encoding="utf-8")
    ).substitute(values)


@functools.cache
def html_template(name: str) -> Template:
    """The HTML template NAME.html around a Bokeh document, with the scripts that it
    includes."""
    return Environment(loader=FileSystemLoader(Path(__file__).parent)).get_template(
        f"{name}.html"
    )


PAGE_STYLE = style_sheet("page")
"""Styles of the whole page."""

_NARROW = "@media (max-width: 860px)"
STACKED = (
    f"{_NARROW} {{ :host {{ display: grid !important; grid-template-columns: minmax(0,"
    " 1fr); } }"
)
"""Style of a row whose parts are below each other in a narrow window."""
LAST_IF_STACKED = f"{_NARROW} {{ :host {{ order: 1; }} }}"
"""Style of the part of such a row that is then the last."""

WIDGET_STYLES = style_sheet("widgets")
"""Styles of every widget."""

ONE_LINE: dict[str, Any] = {
    "white_space": "nowrap",
    "overflow": "hidden",
    "text_overflow": "ellipsis",
}
"""Styles of a text that is cut off if it does not fit."""


def text_div(
    words: str, size: int = 13, colour: str = INK, margin: Any = 0, **styles: Any
) -> Div:
    """Plain text without markup. margin: as in Bokeh. styles: CSS properties, with _
    for -."""
    named = {name.replace("_", "-"): value for name, value in styles.items()}
    style = {
        "font-size": f"{size}px",
        "font-family": FACE,
        "color": colour,
        "line-height": "1.4",
        **named,
    }
    return Div(
        text=words,
        render_as_text=True,
        styles=style,
        sizing_mode="stretch_width",
        margin=margin,
    )


def notice_div() -> Div:
    """An element for error messages, which screen readers announce; hidden while
    empty."""
    made = text_div("", colour=WARNING, margin=(0, 0, 12, 0), white_space="pre-wrap")
    made.update(visible=False, html_attributes={"role": "status"})
    return made


def select_widget(
    title: str, options: Sequence[Any], value: str, **more: Any
) -> Select:
    """A select widget. options: texts, or pairs of a value and its text."""
    looks = {
        "stylesheets": [WIDGET_STYLES],
        "sizing_mode": "stretch_width",
        "margin": (0, 0, 8, 0),
    }
    return Select(title=title, options=list(options), value=value, **{**looks, **more})


def parameter_select(settings: param.Parameterized, name: str) -> Select:
    """A select widget of the objects of a param selector."""
    parameter = settings.param[name]
    words = {str(value): label for label, value in parameter.names.items()}
    values = {str(value): value for value in parameter.objects}
    made = select_widget(
        str(parameter.label), list(words.items()), str(getattr(settings, name))
    )
    made.on_change(
        "value", lambda attribute, old, new: setattr(settings, name, values[new])
    )
    settings.param.watch(lambda event: made.update(value=str(event.new)), name)
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
    looks = {
        "stylesheets": [WIDGET_STYLES],
        "margin": (0, 6, 6, 0),
        "html_attributes": attributes,
    }
    made = Button(label=label, css_classes=list(classes), **{**looks, **more})
    if press is not None:
        made.on_click(press)
    return made
