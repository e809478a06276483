"""What counts as an event of a series: the parameters of `analysis.transitions.change_points`, which says what they
mean."""

from dataclasses import dataclass

from dynamics.settings import check_real

MIN_WINDOW_FRAMES = 5
"""Frames in a window, at least."""


@dataclass(frozen=True)
class DetectionConfig:
    """What counts as an event. All values are dimensionless."""

    depth: float = 0.1
    """A drop loses at least this share of the largest level within some windows; a spike adds this share of the level
    around it."""
    window: float = 0.02
    """Share of the frames over which levels are taken; 5 frames at least. Slower drops are looked for through windows
    twice and four times as long."""
    floor: float = 0.01
    """A spike is at least this high, as a share of the scale."""
    significance: float = 5.0
    """Standard deviations of the noise by which events stand out."""

    def __post_init__(self) -> None:
        for field, up_to in (("depth", 1e6), ("window", 0.5), ("floor", 1e6), ("significance", 1e6)):
            object.__setattr__(
                self, field, check_real(field, getattr(self, field), positive=field != "floor", up_to=up_to)
            )

    def width(self, frames: int) -> int:
        """Frames in a window."""
        return max(MIN_WINDOW_FRAMES, round(self.window * frames))


DEFAULT_DETECTION = DetectionConfig()
"""The default."""
