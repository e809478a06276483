"""The time bar of the page of recorded runs: play buttons, slider, and event marks;
`bar.js` handles its events."""

from bokeh.models import Div

from analysis.explorer.bokeh_panels import MARKED_EVENTS
from analysis.explorer.theme import html_template, style_sheet


def time_bar() -> Div:
    """The time bar as a Div."""
    return Div(
        text=html_template("timebar").render(kinds=MARKED_EVENTS),
        disable_math=True,
        sizing_mode="stretch_width",
        margin=(0, 8, 10, 0),
        stylesheets=[style_sheet("bar")],
    )
