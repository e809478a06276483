"""Contours of maps: their positions and colours, for any drawing library.

Each cell of a map is drawn as a tile of two by two pixels. If the neighbour at the right
or above has a different number, the pixels at that edge are on a contour. All values are
dimensionless; colours are sRGB in 0..1."""

from __future__ import annotations

import numpy as np

DARKER = 0.62
"""Factor of a map's colour on its contours."""

FLAG_COMBINATIONS = 4
"""Contours of a cell: none, at its right edge (1), at its upper edge (2), or both (3).
A marked map holds `FLAG_COMBINATIONS * number + flags` in each cell; the script of the
page reads it too."""


def mark_contours(numbers: np.ndarray, count: int) -> np.ndarray:
    """The marked map of numbers (..., row, column) below `count`, the lowest row first.

    The type is the smallest unsigned integer that holds all. Two adjacent contours are
    both omitted, so that bands one cell wide have none. The values index
    `contour_tiles`."""
    right = np.zeros(numbers.shape, bool)
    right[..., :-1] = _isolated(numbers[..., 1:] != numbers[..., :-1])
    above = np.zeros(numbers.shape, bool)
    columns = np.swapaxes(numbers, -1, -2)
    between_rows = _isolated(columns[..., 1:] != columns[..., :-1])
    above[..., :-1, :] = np.swapaxes(between_rows, -1, -2)
    return _pack(numbers, right, above, count)


def _pack(
    numbers: np.ndarray, right: np.ndarray, above: np.ndarray, count: int
) -> np.ndarray:
    """Numbers below `count` and the flags of their contours as one integer each."""
    dtype = np.min_scalar_type(FLAG_COMBINATIONS * count - 1)
    flags = right.astype(dtype) + 2 * above.astype(dtype)
    return FLAG_COMBINATIONS * numbers.astype(dtype) + flags


def _isolated(lines: np.ndarray) -> np.ndarray:
    """Those of the lines (..., row, column) that have no neighbour in their row."""
    result = lines.copy()
    result[..., 1:] &= ~lines[..., :-1]
    result[..., :-1] &= ~lines[..., 1:]
    return result


def contour_tiles(palette: np.ndarray) -> np.ndarray:
    """Colours of a cell's four pixels for each value of a marked map: (number, rgb) ->
    (value, 2, 2, rgb), the lower and the left pixels first."""
    on_contour = np.zeros((FLAG_COMBINATIONS, 2, 2), bool)
    on_contour[[1, 3], :, 1] = True
    on_contour[[2, 3], 1, :] = True
    shades = (
        np.asarray(palette, float)[:, None, None, None]
        * np.where(on_contour, DARKER, 1.0)[..., None]
    )
    return shades.reshape(-1, 2, 2, 3)


def tile_pixels(
    tiles: np.ndarray, marked: np.ndarray, size: tuple[int, int] | None = None
) -> np.ndarray:
    """Image (height, width, ...) of a marked map (row, column), with tiles (value, 2,
    2, ...).

    size: height and width, at least as many as rows and columns; contours are
    continuous. Default: two by two pixels per cell."""
    height, width = size or (2 * marked.shape[0], 2 * marked.shape[1])
    rows, upper = _cells_and_halves(height, len(marked))
    columns, right = _cells_and_halves(width, marked.shape[1])
    return tiles[marked[:, columns][rows], upper[:, None], right]


def cells_of_pixels(size: int, count: int) -> np.ndarray:
    """Index of the cell, of `count`, that each of `size` pixels shows, (size,)."""
    return np.arange(size) * count // max(size, 1)


def _cells_and_halves(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cell of each of `size` pixels, and the half of the cell, 0 or 1, in which the
    pixel is."""
    cells = cells_of_pixels(size, count)
    half = max(1, round(size / (2 * count)))
    # a pixel is in the last half if the one half a cell further on is in another cell
    further_on = np.append(cells[half:], np.full(min(half, size), count))
    return cells, np.where(cells != further_on, 1, 0)
