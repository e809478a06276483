"""The time bar of the page of recorded runs: play buttons, slider, and event marks;
`bar.js` handles its events."""

from bokeh.models import Div

from analysis.explorer.bokeh_panels import MARKED_EVENTS
from analysis.explorer.theme import style_sheet


def _svg_icon(path: str) -> str:
    """An icon on a button."""
    shape = f'<path d="{path}" fill="currentColor"/>'
    return (
        '<svg viewBox="0 0 16 16" width="14" height="14"'
        f' aria-hidden="true">{shape}</svg>'
    )


_BUTTONS = {
    "before": ("Previous event (page up)", "M2 3h2v10H2zM14 3v10L5 8z"),
    "back": ("One frame back (left arrow)", "M11 3v10L4 8z"),
    "on": ("One frame on (right arrow)", "M5 3v10l7-5z"),
    "after": ("Next event (page down)", "M12 3h2v10h-2zM2 3v10l9-5z"),
}
"""Titles and icons of buttons."""
_PLAY = "M4 2.5v11l9.5-5.5z"
_PAUSE = "M4 3h3v10H4zM9 3h3v10H9z"
_SPEEDS = (5, 10, 20, 30, 60, 120, 240)
"""Speeds in frames per second."""


def _bar_button(name: str) -> str:
    """A button of the time bar."""
    title, path = _BUTTONS[name]
    return (
        f'<button data-do="{name}" disabled title="{title}"'
        f' aria-label="{title}">{_svg_icon(path)}</button>'
    )


def time_bar() -> Div:
    """The time bar as a Div; `bar.js` handles its events, and enables the controls when
    the frames are there."""
    speeds = "".join(
        f'<option value="{speed}">{speed} frames/s</option>' for speed in _SPEEDS
    )
    kinds = "".join(
        f'<span><i class="{kind}"></i>{kind}</span>' for kind in MARKED_EVENTS
    )
    text = f"""<div class="bar" role="group" aria-label="Time">
    <div class="row">{_bar_button("before")}{_bar_button("back")}
<button class="main" data-do="play" disabled title="Play (space)"
    aria-label="Play"><span class="go">{_svg_icon(_PLAY)}</span><span class="halt">{_svg_icon(_PAUSE)}</span></button>
    {_bar_button("on")}{_bar_button("after")}
    <select data-do="speed" disabled title="Speed" aria-label="Speed">{speeds}</select>
    <output>loading …</output><span class="kinds">{kinds}</span></div>
    <div class="line"><div class="ticks"></div><input type="range" data-do="seek" min="0" max="1" value="1" step="1"
    aria-label="Frame" disabled></div></div>"""
    return Div(
        text=text,
        disable_math=True,
        sizing_mode="stretch_width",
        margin=(0, 8, 10, 0),
        stylesheets=[style_sheet("bar")],
    )
