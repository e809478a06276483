"""Controls of the live pages: sliders, status lines, titles and legends."""

from collections.abc import Sequence
from typing import Any

import param
from bokeh.document import Document
from bokeh.models import (
    Column,
    ColumnDataSource,
    CustomJS,
    NumericInput,
    Row,
    Slider,
    UIElement,
)
from matplotlib.colors import to_hex

from analysis.explorer.theme import FAINT, ONE_LINE, WIDGET_STYLES, text_div
from analysis.panels.colours import named_colours

_TWO_LINES = (
    "@media (max-width: 1250px) { :host { height: 36px !important; flex-basis: 36px"
    " !important; } }"
)
"""Style of details that may need two lines in narrow windows."""
_HIDDEN_LABEL = (
    "label { position: absolute; clip-path: inset(50%); height: 1px; width: 1px; }"
)


class LabelledSlider:
    """A slider and a number field for one setting."""

    def __init__(self, settings: param.Parameterized, name: str, step: float) -> None:
        self.settings, self.name = settings, name
        parameter = settings.param[name]
        low, high = parameter.bounds
        value = getattr(settings, name)
        title = parameter.label
        whole = isinstance(parameter, param.Integer)
        self.slider = Slider(
            title=title,
            start=low,
            end=high,
            step=step,
            value=value,
            show_value=False,
            sizing_mode="stretch_width",
            format="0[.]0[0000]",
            tooltips=False,
            stylesheets=[WIDGET_STYLES],
            margin=(0, 14, 0, 7),
        )
        self.field = NumericInput(
            title=title,
            mode="int" if whole else "float",
            low=low,
            high=high,
            value=value,
            width=78,
            margin=0,
            stylesheets=[WIDGET_STYLES, _HIDDEN_LABEL],
        )
        for widget in (self.slider, self.field):
            widget.on_change("value", self._turned)
        settings.param.watch(self._show, name)
        self.layout = Row(
            self.slider,
            self.field,
            sizing_mode="stretch_width",
            margin=(0, 0, 10, 0),
            css_classes=["setting"],
        )

    def _turned(self, attribute: str, old: Any, new: Any) -> None:
        if new is None:  # the field was emptied
            self._show(None)
            return
        whole = isinstance(self.settings.param[self.name], param.Integer)
        setattr(self.settings, self.name, round(new) if whole else float(new))

    def _show(self, event: Any) -> None:
        self.slider.value = self.field.value = getattr(self.settings, self.name)


class StatusLine:
    """Text that changes often. A script replaces it, as Bokeh would otherwise lay out
    the whole page again."""

    def __init__(self, name: str = "", **styles: Any) -> None:
        """name: a class for the scripts of the page. styles: CSS properties, with _ for
        -."""
        self.layout = text_div("", colour=FAINT, **styles)
        self.layout.css_classes = [name] if name else []
        code = """
            const [words = "", aloud = false] = this.tags, view = Bokeh.index.find_one(div)
            div.setv({text: words}, {silent: true})
            const place = view?.shadow_el.querySelector(".bk-clearfix")
            if (view) view.el.ariaLive = aloud ? "polite" : "off"
            if (place) place.textContent = words
        """
        self.carrier = ColumnDataSource()  # has no view in the browser
        self.carrier.js_on_change(
            "tags", CustomJS(args={"div": self.layout}, code=code)
        )
        self.layout.tags = [self.carrier]

    def say(self, words: str, aloud: bool = False) -> None:
        """aloud: whether screen readers announce the text."""
        if self.layout.document is None or is_page_pending(self.layout.document):
            self.layout.text = words
        self.carrier.tags = [words, aloud]


def is_page_pending(document: Document) -> bool:
    """Whether a page is still being built and has not been sent."""
    return (
        document.session_context is not None
        and document.session_context.session is None
    )


def titled_plot(title: str, plot: UIElement, *details: UIElement) -> Column:
    """A plot with its title, and a line of details between them."""
    looks: dict[str, Any] = {
        "sizing_mode": "stretch_width",
        "height": 18,
        "stylesheets": [_TWO_LINES],
    }
    line = Row(*(details or [text_div(" ")]), margin=(0, 0, 4, 0), **looks)
    head = text_div(title, font_weight="600", **ONE_LINE)
    return Column(head, line, plot, sizing_mode="stretch_width", margin=(0, 18, 14, 0))


def curve_legend(names: Sequence[str]) -> list[UIElement]:
    """Names of curves, underlined in their colours."""
    result: list[UIElement] = []
    for name, rgb in zip(names, named_colours(names), strict=True):
        line = f"2px solid {to_hex(rgb)}"
        result.append(text_div(name, margin_right="12px", border_bottom=line))
        result[-1].update(sizing_mode=None, width_policy="min")
    return result


def control_column(*parts: UIElement) -> Column:
    """The column of controls at the left of a page."""
    return Column(*parts, width=256, margin=(0, 28, 0, 0))
