"""The theme of the explorer: colours, font, styles of widgets, and functions that make styled widgets.

Blue, ink and grey have a contrast of at least 4.5 to 1 on the background, as WCAG 2 requires for small text.
"""

from collections.abc import Callable, Sequence
from typing import Any

import param
from bokeh.models import Button, Div, Select

ACCENT = "#0b6fa4"
INK, FAINT = "#1f2933", "#616e7c"
"""Colours of text and of secondary text."""
WARNING = "#8a4b08"
PAPER = "#fbfbfa"
BORDER, RULE = "#c5ccd3", "#d9dee3"
"""Colours of controls' borders, and of figures' frames and grids."""
FACE = 'system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial, sans-serif'

PAGE_STYLE = f"""
html {{ background: {PAPER}; color: {INK}; }}
body {{ font: 13px/1.45 {FACE}; margin: 0 auto; padding: 14px 20px 24px; }}
:focus-visible {{ outline: 2px solid {ACCENT}; outline-offset: 2px; }}
"""
"""Styles of the whole page."""

WIDGET_STYLES = f"""
label {{ font: 12px/1.3 {FACE}; color: {FAINT}; }}
label span {{ font: 12px/1.5 {FACE}; color: {INK}; }}
.bk-btn {{ font: 13px/1.3 {FACE}; border: 1px solid {BORDER}; border-radius: 6px; background: white; color: {INK};
  padding: 5px 12px; }}
.bk-btn:hover {{ border-color: {ACCENT}; color: {ACCENT}; background: white; }}
.bk-btn.bk-active, .bk-btn.bk-btn-primary {{ background: {ACCENT}; border-color: {ACCENT}; color: white; }}
:host(.small) .bk-btn {{ font-size: 12px; padding: 3px 9px; }}
.bk-input {{ font: 12px/1.3 {FACE}; border-radius: 6px; border-color: {BORDER}; background-color: white;
  color: {INK}; }}
.bk-btn:focus-visible, .noUi-handle:focus-visible, .bk-input:focus-visible, input:focus-visible {{
  outline: 2px solid {ACCENT}; outline-offset: 2px; box-shadow: none; }}
input[type=checkbox] {{ accent-color: {ACCENT}; }}
.bk-slider-title {{ font: 12px/1.3 {FACE}; color: {FAINT}; }}
.noUi-target {{ background: #e4e7eb; border: none; box-shadow: none; height: 4px; margin-top: 8px; }}
.noUi-connect {{ background: {ACCENT}; }}
.noUi-horizontal .noUi-handle {{ width: 14px; height: 14px; right: -7px; top: -5px; border-radius: 50%;
  border: 2px solid {ACCENT}; background: white; box-shadow: none; cursor: grab; }}
.noUi-handle::before, .noUi-handle::after {{ display: none; }}
"""
"""Styles of every widget."""

ONE_LINE: dict[str, Any] = {"white_space": "nowrap", "overflow": "hidden", "text_overflow": "ellipsis"}
"""Styles of a text that is cut off if it does not fit."""


def text_div(words: str, size: int = 13, colour: str = INK, margin: Any = 0, **styles: Any) -> Div:
    """Plain text without markup. margin: as in Bokeh. styles: CSS properties, with _ for -."""
    named = {name.replace("_", "-"): value for name, value in styles.items()}
    style = {"font-size": f"{size}px", "font-family": FACE, "color": colour, "line-height": "1.4", **named}
    return Div(text=words, render_as_text=True, styles=style, sizing_mode="stretch_width", margin=margin)


def notice_div() -> Div:
    """An element for error messages, which screen readers announce; hidden while empty."""
    made = text_div("", colour=WARNING, margin=(0, 0, 12, 0), white_space="pre-wrap")
    made.update(visible=False, html_attributes={"role": "status"})
    return made


def select_widget(title: str, options: Sequence[Any], value: str, **more: Any) -> Select:
    """A select widget. options: texts, or pairs of a value and its text."""
    looks = {"stylesheets": [WIDGET_STYLES], "sizing_mode": "stretch_width", "margin": (0, 0, 8, 0)}
    return Select(title=title, options=list(options), value=value, **{**looks, **more})


def parameter_select(settings: param.Parameterized, name: str) -> Select:
    """A select widget of the objects of a param selector."""
    parameter = settings.param[name]
    words = {str(value): label for label, value in parameter.names.items()}
    values = {str(value): value for value in parameter.objects}
    made = select_widget(str(parameter.label), list(words.items()), str(getattr(settings, name)))
    made.on_change("value", lambda attribute, old, new: setattr(settings, name, values[new]))
    settings.param.watch(lambda event: made.update(value=str(event.new)), name)
    return made


def make_button(
    label: str, press: Callable[[], None] | None = None, title: str = "", classes: Sequence[str] = (), **more: Any
) -> Button:
    """A button. title: its name, if the label is a symbol. Buttons of the class `small` are smaller."""
    attributes = {"title": title, "aria-label": title} if title else {}
    looks = {"stylesheets": [WIDGET_STYLES], "margin": (0, 6, 6, 0), "html_attributes": attributes}
    made = Button(label=label, css_classes=list(classes), **{**looks, **more})
    if press is not None:
        made.on_click(press)
    return made
