"""Level lines of maps: where they run, and in which colours, for whatever draws them.

Each place of a map is four pixels, two by two, of which those to the right and above lie on a line where the number
there is another. All values are dimensionless; colours are sRGB in 0..1.
"""

import numpy as np

DARKER = 0.62
"""What remains of a map's colour on its level lines."""

RIGHT, ABOVE = 1, 2
"""Added to four times a number where a line runs at the right of its place, and above it."""


def mark_contours(numbers: np.ndarray, count: int) -> np.ndarray:
    """Numbers (..., row, column) below a count, the lowest row first, with lines: 4 number + RIGHT + ABOVE each.

    Places in `tiles`, in the smallest unsigned integers that hold all. Where one line would lie beside another there is
    none: bands as narrow as a place are not told apart.
    """
    found = 4 * numbers.astype(np.min_scalar_type(4 * count - 1))
    found[..., :, :-1] += _alone(numbers[..., 1:] != numbers[..., :-1]) * found.dtype.type(RIGHT)
    upwards = np.swapaxes(numbers, -1, -2)
    found[..., :-1, :] += np.swapaxes(_alone(upwards[..., 1:] != upwards[..., :-1]), -1, -2) * found.dtype.type(ABOVE)
    return found


def _alone(lines: np.ndarray) -> np.ndarray:
    """Those of the lines (..., row, column) that have no other beside them in their row."""
    found = lines.copy()
    found[..., 1:] &= ~lines[..., :-1]
    found[..., :-1] &= ~lines[..., 1:]
    return found


def contour_tiles(palette: np.ndarray) -> np.ndarray:
    """The four pixels of a place by what `lined` gives for it: (number, rgb) -> (4 number, row, column, rgb)."""
    on_line = np.zeros((4, 2, 2), bool)
    on_line[[RIGHT, RIGHT | ABOVE], :, 1] = True
    on_line[[ABOVE, RIGHT | ABOVE], 1] = True
    shades = np.asarray(palette, float)[:, None, None, None] * np.where(on_line, DARKER, 1.0)[..., None]
    return shades.reshape(-1, 2, 2, 3)


def tile_pixels(tiles: np.ndarray, lined: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    """The pixels of a map: tiles (4 number, row, column, ...) at lined (row, column) -> (height, width, ...).

    size: height and width, at least as many as there are rows and columns, of which every place then has its share, and
    lines are unbroken; None is two by two a place.
    """
    height, width = size or (2 * lined.shape[0], 2 * lined.shape[1])
    (rows, above), (columns, right) = _parts(height, lined.shape[0]), _parts(width, lined.shape[1])
    return tiles[lined[rows[:, None], columns], above[:, None], right]


def cells_of_pixels(size: int, count: int) -> np.ndarray:
    """Which of so many places each of so many pixels shows, (size,)."""
    return np.arange(size) * count // max(size, 1)


def _parts(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each of so many pixels its place, and whether (1 or 0) it is among the last half of that place's pixels."""
    of = cells_of_pixels(size, count)
    half = max(1, round(size / (2 * count)))
    return of, (of != np.append(of[half:], np.full(min(half, size), count))).astype(np.intp)
