"""Controls of the live pages: widgets of settings, and lines of text."""

from typing import Any

import param
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    Select,
    Slider,
    Spinner,
    TextInput,
    Widget,
)

from analysis.explorer.page_timer import is_page_pending
from analysis.explorer.theme import text_div
from dynamics.settings import SettingsError


def setting_widget(settings: param.Parameterized, name: str) -> Widget:
    """The control of a setting: a select for a choice, a field for a text, a field with
    buttons for an integer, and a slider for another number."""
    parameter = settings.param[name]
    choices = {str(value): value for value in getattr(parameter, "objects", ())}

    def widget_value() -> Any:
        value = getattr(settings, name)
        return str(value) if choices else value

    looks: dict[str, Any] = {"title": parameter.label, "value": widget_value()}
    made: Any
    if choices:
        options = list(zip(choices, parameter.names, strict=True))
        made = Select(options=options, **looks)
    elif isinstance(parameter, param.String):
        made = TextInput(**looks)
    else:
        low, high = parameter.bounds
        looks["step"] = parameter.step
        if isinstance(parameter, param.Integer):
            made = Spinner(mode="int", low=low, high=high, **looks)
        else:
            made = Slider(start=low, end=high, format="0[.]0[0000]", **looks)

    def apply_value(attribute: str, old: Any, new: Any) -> None:
        if new is None:  # the field was emptied
            made.value = widget_value()
        else:
            try:
                setattr(settings, name, choices.get(new, new))
                made.title = parameter.label
            except SettingsError as error:
                made.title = f"{parameter.label}: {error.found} is not allowed"

    made.on_change("value", apply_value)
    settings.param.watch(lambda event: made.update(value=widget_value()), name)
    return made


class StatusLine:
    """Text that changes often. A script replaces it, as Bokeh would otherwise lay out
    the whole page again."""

    def __init__(self, name: str = "", **styles: Any) -> None:
        """name: a class for the scripts of the page. styles: CSS properties, with _ for
        -."""
        self.layout = text_div("", colour="muted", **styles)
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

    def show(self, words: str, aloud: bool = False) -> None:
        """Show a text. aloud: whether screen readers announce it."""
        if self.layout.document is None or is_page_pending(self.layout.document):
            self.layout.text = words
        self.carrier.tags = [words, aloud]
