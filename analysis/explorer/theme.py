"""How the explorer looks, said once: its colours, its face, the styles of its widgets, and those widgets.

Blue, ink and grey stand out from the paper by 4.5 to 1 or more, as small letters need (WCAG 2, contrast).
"""

from collections.abc import Callable, Sequence
from typing import Any

import param
from bokeh.models import Button, Div, Select

ACCENT = "#0b6fa4"
INK, FAINT = "#1f2933", "#616e7c"
"""Of words, and of words that matter less."""
WARNING = "#8a4b08"
PAPER = "#fbfbfa"
BORDER, RULE = "#c5ccd3", "#d9dee3"
"""Around what can be pressed, and around and within figures."""
FACE = 'system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial, sans-serif'

PAGE_STYLE = f"""
html {{ background: {PAPER}; color: {INK}; }}
body {{ font: 13px/1.45 {FACE}; margin: 0 auto; padding: 14px 20px 24px; }}
:focus-visible {{ outline: 2px solid {ACCENT}; outline-offset: 2px; }}
"""
"""Styles of a page as a whole."""

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
"""Styles of a text that is cut where there is no room."""


def text_div(words: str, size: int = 13, colour: str = INK, margin: Any = 0, **styles: Any) -> Div:
    """Plain text, in which nothing is read as markup. margin: as Bokeh has it; styles: of CSS, with _ for -."""
    named = {name.replace("_", "-"): value for name, value in styles.items()}
    style = {"font-size": f"{size}px", "font-family": FACE, "color": colour, "line-height": "1.4", **named}
    return Div(text=words, render_as_text=True, styles=style, sizing_mode="stretch_width", margin=margin)


def notice_div() -> Div:
    """Where a page says what it cannot do, which a screen reader reads out; unseen until then."""
    made = text_div("", colour=WARNING, margin=(0, 0, 12, 0), white_space="pre-wrap")
    made.update(visible=False, html_attributes={"role": "status"})
    return made


def select_widget(title: str, options: Sequence[Any], value: str, **more: Any) -> Select:
    """A list to choose from. options: words, or pairs of a value and its words."""
    looks = {"stylesheets": [WIDGET_STYLES], "sizing_mode": "stretch_width", "margin": (0, 0, 8, 0)}
    return Select(title=title, options=list(options), value=value, **{**looks, **more})


def parameter_select(settings: param.Parameterized, name: str) -> Select:
    """A list to choose one of the objects of a selector from."""
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
    """A button; title is its name where the label is a sign or says too little. Of the class `small`, a smaller one."""
    attributes = {"title": title, "aria-label": title} if title else {}
    looks = {"stylesheets": [WIDGET_STYLES], "margin": (0, 6, 6, 0), "html_attributes": attributes}
    made = Button(label=label, css_classes=list(classes), **{**looks, **more})
    if press is not None:
        made.on_click(press)
    return made
