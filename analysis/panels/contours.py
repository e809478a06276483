"""Contours of maps: their positions and colours, for any drawing library.

Each cell of a map is drawn as two by two pixels; a contour occupies those at its right
or upper edge if the neighbour there has a different number. All values are
dimensionless; colours are sRGB in 0..1."""

from __future__ import annotations

import numpy as np

DARKER = 0.62
"""Factor of a map's colour on its contours."""

_RIGHT, _ABOVE = 1, 2
"""Flags of a contour at the right and at the upper edge of a cell."""


def mark_contours(numbers: np.ndarray, count: int) -> np.ndarray:
    """4 number + flags of contours, for numbers (..., row, column) below `count`, the
    lowest row first.

    The type is the smallest unsigned integer that holds all. Two adjacent contours are
    both omitted, so that bands one cell wide have none. The values index
    `contour_tiles`."""
    result = 4 * numbers.astype(np.min_scalar_type(4 * count - 1))
    result[..., :, :-1] += _isolated(
        numbers[..., 1:] != numbers[..., :-1]
    ) * result.dtype.type(_RIGHT)
    columns = np.swapaxes(numbers, -1, -2)
    above = np.swapaxes(_isolated(columns[..., 1:] != columns[..., :-1]), -1, -2)
    result[..., :-1, :] += above * result.dtype.type(_ABOVE)
    return result


def _isolated(lines: np.ndarray) -> np.ndarray:
    """Those of the lines (..., row, column) that have no neighbour in their row."""
    result = lines.copy()
    result[..., 1:] &= ~lines[..., :-1]
    result[..., :-1] &= ~lines[..., 1:]
    return result


def contour_tiles(palette: np.ndarray) -> np.ndarray:
    """Colours of a cell's four pixels for each value of `mark_contours`: (number, rgb)
    -> (4 number, 2, 2, rgb)."""
    on_contour = np.zeros((4, 2, 2), bool)
    on_contour[[_RIGHT, _RIGHT | _ABOVE], :, 1] = True
    on_contour[[_ABOVE, _RIGHT | _ABOVE], 1] = True
    shades = (
        np.asarray(palette, float)[:, None, None, None]
        * np.where(on_contour, DARKER, 1.0)[..., None]
    )
    return shades.reshape(-1, 2, 2, 3)


def tile_pixels(
    tiles: np.ndarray, marked: np.ndarray, size: tuple[int, int] | None = None
) -> np.ndarray:
    """Image (height, width, ...) of a marked map (row, column), with tiles (4 number,
    2, 2, ...).

    size: height and width, at least as many as rows and columns; contours are
    continuous. Default: two by two pixels per cell."""
    height, width = size or (2 * marked.shape[0], 2 * marked.shape[1])
    rows, above = _cells_and_halves(height, len(marked))
    columns, right = _cells_and_halves(width, marked.shape[1])
    index = 4 * marked[:, columns][rows].astype(np.intp) + (2 * above[:, None] + right)
    return tiles.reshape(-1, *tiles.shape[3:])[index]


def cells_of_pixels(size: int, count: int) -> np.ndarray:
    """Index of the cell, of `count`, that each of `size` pixels shows, (size,)."""
    return np.arange(size) * count // max(size, 1)


def _cells_and_halves(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cell of each of `size` pixels, and whether (1 or 0) the pixel is in the last half
    of its cell."""
    cells = cells_of_pixels(size, count)
    half = max(1, round(size / (2 * count)))
    return cells, (
        cells != np.append(cells[half:], np.full(min(half, size), count))
    ).astype(np.intp)
