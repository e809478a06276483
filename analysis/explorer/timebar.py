"""The time bar of the page of recorded runs: play buttons, slider, and event marks; `bar.js` handles its events."""

from bokeh.models.widgets import Div

from analysis.explorer.events import EVENT_MARK_COLOURS
from analysis.explorer.theme import ACCENT, BORDER, FACE, FAINT, INK, PAPER


def _svg_icon(path: str) -> str:
    """An icon on a button."""
    shape = f'<path d="{path}" fill="currentColor"/>'
    return f'<svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">{shape}</svg>'


_ICONS = {
    "before": "M2 3h2v10H2zM14 3v10L5 8z",
    "back": "M11 3v10L4 8z",
    "on": "M5 3v10l7-5z",
    "after": "M12 3h2v10h-2zM2 3v10l9-5z",
}
_TITLES = {
    "before": "Previous event (page up)",
    "back": "One frame back (left arrow)",
    "on": "One frame on (right arrow)",
    "after": "Next event (page down)",
}
_PLAY = "M4 2.5v11l9.5-5.5z"
_PAUSE = "M4 3h3v10H4zM9 3h3v10H9z"
_SPEEDS = (5, 10, 20, 30, 60, 120, 240)
"""Speeds in frames per second."""


def _bar_button(name: str) -> str:
    """A button of the time bar."""
    title, icon = _TITLES[name], _svg_icon(_ICONS[name])
    return f'<button data-do="{name}" title="{title}" aria-label="{title}">{icon}</button>'


def time_bar() -> Div:
    """The time bar as a Div; `bar.js` handles its events."""
    speeds = "".join(f'<option value="{speed}">{speed} frames/s</option>' for speed in _SPEEDS)
    kinds = "".join(f'<span><i class="{kind}"></i>{kind}</span>' for kind in EVENT_MARK_COLOURS)
    text = f"""<div class="bar" role="group" aria-label="Time">
    <div class="row">{_bar_button("before")}{_bar_button("back")}
<button class="main" data-do="play" title="Play (space)"
    aria-label="Play"><span class="go">{_svg_icon(_PLAY)}</span><span class="halt">{_svg_icon(_PAUSE)}</span></button>
    {_bar_button("on")}{_bar_button("after")}<select data-do="speed" title="Speed" aria-label="Speed">{speeds}</select>
    <output></output><span class="kinds">{kinds}</span></div>
    <div class="line"><div class="ticks"></div><input type="range" data-do="seek" min="0" max="0" value="0" step="1"
    aria-label="Frame"></div></div>"""
    return Div(
        text=text, disable_math=True, sizing_mode="stretch_width", margin=(0, 8, 10, 0), stylesheets=[_bar_style()]
    )


def _bar_style() -> str:
    colours = "".join(f".{kind} {{ background: {colour}; }} " for kind, colour in EVENT_MARK_COLOURS.items())
    return f"""
    :host {{ position: sticky; top: 0; z-index: 5; }}
    .bk-clearfix {{ width: 100%; }}
    .bar {{ font: 13px/1.3 {FACE}; color: {INK}; background: {PAPER}f2; padding: 6px 0 4px; }}
    .row {{ display: flex; align-items: center; gap: 5px; flex-wrap: wrap; }}
    button, select {{ font: inherit; color: {INK}; background: white; border: 1px solid {BORDER}; border-radius: 6px;
      height: 28px; padding: 0 8px; cursor: pointer; }}
    button svg {{ display: block; }}
    button:hover:enabled, select:hover {{ border-color: {ACCENT}; color: {ACCENT}; }}
    button:disabled {{ color: #b8c0c8; cursor: default; }}
    button.main {{ background: {ACCENT}; border-color: {ACCENT}; color: white; padding: 0 14px; }}
    button.main:hover {{ color: white; filter: brightness(1.1); }}
    .main .halt, .main.playing .go {{ display: none; }}
    .main.playing .halt {{ display: inline; }}
    :focus-visible {{ outline: 2px solid {ACCENT}; outline-offset: 2px; }}
    select {{ margin: 0 6px; }}
    output {{ font-variant-numeric: tabular-nums; font-weight: 600; }}
    .kinds {{ margin-left: auto; color: {FAINT}; font-size: 11px; }}
    .kinds i {{ display: inline-block; width: 8px; height: 8px; border-radius: 2px; margin: 0 4px 0 9px; }}
    .line {{ position: relative; margin-top: 5px; height: 26px; }}
    .ticks {{ position: absolute; left: 8px; right: 8px; top: 0; height: 9px; }}
    .ticks button {{ position: absolute; top: 0; width: 5px; height: 9px; padding: 0; margin-left: -2.5px; border: none;
      border-radius: 2px; }}
    .ticks button.plateau {{ margin: 0; height: 4px; top: 5px; border-radius: 0; opacity: 0.7; }}
    .ticks button:hover {{ filter: brightness(0.8); }}
    input[type=range] {{ position: absolute; left: 0; right: 0; bottom: 0; width: 100%; height: 16px; margin: 0;
      accent-color: {ACCENT}; cursor: pointer; }}
    {colours}"""
