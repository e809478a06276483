"""Ticks of logarithmic axes, with labels such as 0.5 and 200 that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedLocator,
    Locator,
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

_PLAIN = 1e-3, 2e4
"""Smallest and largest end of an axis whose ticks are numbers such as 0.05 or 200,
instead of powers of ten."""

_FEWEST_TICKS = 3
"""Ticks that an axis has at least."""


def set_readable_ticks(axes: Axes) -> None:
    """Put ticks of logarithmic axes at 1, 2 and 5 times powers of ten, or if the axis
    is too short for these, also at 3 and 7 times, or at other round numbers; over several decades at powers of
    ten. Axes whose ticks are chosen otherwise stay as they are."""
    for axis in (axes.xaxis, axes.yaxis):
        is_default = (
            type(axis.get_major_formatter()) is LogFormatterSciNotation
            and type(axis.get_major_locator()) is LogLocator
        )
        if axis.get_scale() != "log" or not is_default:
            continue
        transform: Any = axis.get_transform()
        if transform.base != 10:
            continue
        low, high = sorted(axis.get_view_interval())
        is_plain = low >= _PLAIN[0] and high <= _PLAIN[1]
        if high >= 100 * low:
            axis.set_major_locator(LogLocator(numticks=7))
            if is_plain:
                axis.set_major_formatter("{x:g}")
        else:
            axis.set_major_locator(_locator_of_short_axis(low, high))
            axis.set_major_formatter("{x:g}" if is_plain else "{x:.0e}")
        axis.set_minor_formatter(NullFormatter())


def _locator_of_short_axis(low: float, high: float) -> Locator:
    """A locator with enough ticks on an axis of less than two decades."""
    decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for numbers in ((1, 2, 5), (1, 2, 3, 5, 7)):
        places = np.outer(10.0**decades, numbers).ravel()
        inside = places[(places >= low) & (places <= high)]
        if len(inside) >= _FEWEST_TICKS:
            return FixedLocator(inside.tolist())
    return MaxNLocator(4, steps=[1, 2, 5, 10])


def thin_tick_labels(axes: Axes) -> None:
    """Leave out ticks of logarithmic axes whose labels would overlap: those between
    powers of ten, then some of the others."""
    for index, axis in enumerate((axes.xaxis, axes.yaxis)):
        if axis.get_scale() not in ("log", "symlog"):
            continue
        any_axis: Any = axis
        ticks = [tick for tick in any_axis._update_ticks() if _label(tick).get_text()]
        ticks.sort(key=lambda tick: tick.get_loc())
        if _fitting_stride(ticks, index) == 1:
            continue
        powers = [tick for tick in ticks if tick in any_axis.majorTicks]
        if len(powers) < 2:
            axis.set_major_formatter("{x:g}")
        else:
            ticks = powers
        places = [tick.get_loc() for tick in ticks[:: _fitting_stride(ticks, index)]]
        axis.set_major_locator(FixedLocator(places))
        axis.set_minor_formatter(NullFormatter())


def _label(tick: Any) -> Any:
    """The label of a tick, which colour bars have on the other side."""
    return tick.label1 if tick.label1.get_visible() else tick.label2


def _fitting_stride(ticks: Sequence[Any], index: int) -> int:
    """The smallest stride with which the labels of ticks along an axis, 0 or 1, do not
    overlap."""
    boxes = [_label(tick).get_window_extent() for tick in ticks]
    low, high = (
        np.array([getattr(box, side)[index] for box in boxes])
        for side in ("min", "max")
    )
    strides = range(1, max(2, len(ticks)))
    fitting = (n for n in strides if (low[::n][1:] > high[::n][:-1]).all())
    return next(fitting, len(ticks)) or 1
