"""Thresholds by which `analysis.transitions.change_points` detects drops, rises, spikes
and plateaus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dynamics.settings import check_real

if TYPE_CHECKING:
    import xarray as xr

MIN_WINDOW_FRAMES = 5
"""Smallest number of frames in a window."""


@dataclass(frozen=True)
class DetectionConfig:
    """Thresholds that define an event. All values are dimensionless."""

    depth: float = 0.1
    """Minimum size of a drop, as a fraction of the largest level of the series, and
    minimum height of a spike, as a fraction of the level around it."""
    window: float = 0.02
    """Length of the window over which levels are computed, as a fraction of the number
    of frames (at least 5 frames). Windows two and four times as long are also used, to
    detect slower drops."""
    floor: float = 0.01
    """Minimum height of a spike, as a fraction of the largest level of the series."""
    significance: float = 5.0
    """Minimum size of an event, in standard deviations of the noise."""
    level: Literal["default", "largest", "local", "log"] = "default"
    """Level to which the depth of a drop is relative: the largest of the series; the
    local one, from which the series drops, which also detects small and slow drops
    after large ones; or log, the same in the logarithm of the series, where the middle
    of a drop is the geometric mean of its levels. Default: local for the loss of a
    recorded model, largest for others."""

    def __post_init__(self) -> None:
        for field, up_to in (
            ("depth", 1e6),
            ("window", 0.5),
            ("floor", 1e6),
            ("significance", 1e6),
        ):
            value = check_real(
                field, getattr(self, field), positive=field != "floor", up_to=up_to
            )
            object.__setattr__(self, field, value)

    def for_series(self, values: xr.DataArray) -> DetectionConfig:
        """These thresholds with the default level of a scalar, which its attribute
        `level` names (`trajectory_scalar`)."""
        if self.level != "default":
            return self
        return replace(self, level=values.attrs.get("level", "largest"))

    def width(self, frames: int) -> int:
        """Number of frames in a window, for a series of this many frames."""
        return max(MIN_WINDOW_FRAMES, round(self.window * frames))


DEFAULT_DETECTION = DetectionConfig()
"""The thresholds used unless others are given."""
