"""Sums of the smooth kernels over all pairs of points in the plane by a mesh and
Fourier transforms (particle-mesh Ewald method).

Points are spread to the nodes of a mesh, convolved there with the kernels
(`split_kernels`), and the field is interpolated at the points; the gradient is that of
the interpolation. The mesh is twice as long as the points extend, so that the periodic
convolution is the one in free space. Points are spread slab after slab, every second
one at a time, so that the order of summation is the same for any number of threads."""

from typing import NamedTuple

import numpy as np
from numba import get_num_threads, prange
from scipy import fft, ndimage

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import (
    LANES_64,
    aligned_numbers,
    load_scalars_at,
    multiply_add,
    scalars,
    store_scalars_at,
)
from dynamics.particles.point_cells import (
    COLUMNS,
    REACH,
    PointCells,
    bounding_box,
    with_regions,
)
from dynamics.particles.split_kernels import Splitting, finer_spectra, spectra


def _sizes(powers: int) -> np.ndarray:
    """Ascending numbers of nodes 16 f 2^k with f = 2, 3, 4, 5 or 7 and k < powers."""
    return np.sort(
        [16 * factor << power for factor in (2, 3, 4, 5, 7) for power in range(powers)]
    )


MESH_SIZES = _sizes(8)
"""Numbers of nodes along the longer axis."""
FINER_SIZES = _sizes(20)
"""Numbers of nodes along an axis of the mesh of a dense region."""
NODES_PER_POINT = 24
"""Largest number of nodes relative to the number of points."""
MOST_NODES = 2**26
"""Largest number of nodes in all."""
NODE_COST = 15.0
"""Time of a node relative to that of a pair of near points, measured."""
BLOCK = COLUMNS // REACH
"""Number of cells that form a block with equal sides."""
DENSE = 256
"""Number of points from which a block is dense."""
MOST_HALVINGS = 16
"""The spacing of the mesh of a dense region is halved less often than this."""
BINS = 64
"""Number of bins along the longer axis in which points are counted to estimate the
number of near pairs."""
CHUNK = 256
"""Points whose fields one thread interpolates at a time."""


@kernel_function
def _node_weights(
    points, point, low, inverse, polynomials, terms, width, columns, values
):
    """Write the values (axis, polynomial) of the polynomials around a point; return the
    index of its first node.

    Here and below arrays are flat and no part of one is passed on, as a view costs more
    than what is computed here."""
    number = len(values) // 2
    first = 0
    for axis in range(2):
        position = (points[point, axis] - low[axis]) * inverse + width // 2
        node = np.int64(position)
        first = first * columns + node - width // 2 + 1
        variable = scalars(2 * (position - node) - 1)
        for start in range(0, number, LANES_64):
            value = load_scalars_at(polynomials, start)
            for term in range(1, terms):
                value = multiply_add(
                    value, variable, load_scalars_at(polynomials, term * number + start)
                )
            store_scalars_at(values, axis * number + start, value)
    return first


@cached_kernel(simd, parallel=True)
def _spread(points, slabs, low, spacing, constants, columns, density):
    """Add a unit charge at each point to the density (node,)."""
    terms, width = constants.window.shape
    polynomials = constants.window.reshape(-1)
    for parity in range(2):
        for number in prange((len(slabs) - parity) // 2):
            slab = 2 * np.int64(number) + parity
            values = aligned_numbers(2 * width)
            for point in range(slabs[slab], slabs[slab + 1]):
                first = _node_weights(
                    points,
                    point,
                    low,
                    1 / spacing,
                    polynomials,
                    terms,
                    width,
                    columns,
                    values,
                )
                for row in range(width):
                    row_weight = scalars(values[row])
                    for start in range(0, width, LANES_64):
                        node = first + row * columns + start
                        weights = load_scalars_at(values, width + start)
                        charges = load_scalars_at(density, node)
                        store_scalars_at(
                            density, node, multiply_add(weights, row_weight, charges)
                        )


@cached_kernel(parallel=True)
def _convolve(spectrum, potential, inverse):
    """Multiply the spectrum (row, frequency) by that of the potential; return sums
    (row,) of 1/r of all pairs."""
    rows, size = spectrum.shape
    sums = np.empty(rows)
    for number in prange(rows):
        row = np.int64(number)
        source = min(row, rows - row)
        total = 0.0
        for k in range(size):
            value = spectrum[row, k]
            weight = 1.0 if k == 0 or k == size - 1 else 2.0
            total += (
                weight
                * inverse[source, k]
                * (value.real * value.real + value.imag * value.imag)
            )
            spectrum[row, k] = value * potential[source, k]
        sums[row] = total
    return sums


@kernel_function
def _sum_lanes(lanes, values):
    """Sum of the eight numbers of a group of lanes, in their order."""
    store_scalars_at(lanes, 0, values)
    total = 0.0
    for k in range(LANES_64):
        total += lanes[k]
    return total


@cached_kernel(simd, parallel=True)
def _interpolate(points, low, spacing, constants, columns, potential):
    """Gradient (point, 2) of the potential (node,) at the points, per unit of the mesh.

    Of the potential, its value near the point is subtracted first, which would add to
    the error of interpolation."""
    count = np.int64(len(points))
    terms, width = constants.window.shape
    polynomials = constants.window_and_slope.reshape(-1)
    gradient = np.empty((count, 2))
    for chunk in prange(-(-count // CHUNK)):
        values = aligned_numbers(2 * 2 * width)
        lanes = aligned_numbers(LANES_64)
        begin = np.int64(chunk) * CHUNK
        for point in range(begin, min(begin + CHUNK, count)):
            first = _node_weights(
                points,
                point,
                low,
                1 / spacing,
                polynomials,
                terms,
                width,
                columns,
                values,
            )
            reference = scalars(potential[first + width // 2 * columns + width // 2])
            across = scalars(0.0)
            along = scalars(0.0)
            for start in range(0, width, LANES_64):
                sloped = scalars(0.0)
                weighted = scalars(0.0)
                for row in range(width):
                    value = (
                        load_scalars_at(potential, first + row * columns + start)
                        - reference
                    )
                    weighted = multiply_add(value, scalars(values[row]), weighted)
                    sloped = multiply_add(value, scalars(values[width + row]), sloped)
                weight = load_scalars_at(values, 2 * width + start)
                slope = load_scalars_at(values, 3 * width + start)
                across = multiply_add(sloped, weight, across)
                along = multiply_add(weighted, slope, along)
            gradient[point, 0] = _sum_lanes(lanes, across)
            gradient[point, 1] = _sum_lanes(lanes, along)
    return gradient


@cached_kernel()
def _count_pairs(points, low, scale):
    """Number of ordered pairs of points in the same bin, those of each point with
    itself included."""
    counts = np.zeros((BINS, BINS), np.int64)
    for point in range(len(points)):
        row = np.int64(min((points[point, 0] - low[0]) * scale, BINS - 1.0))
        column = np.int64(min((points[point, 1] - low[1]) * scale, BINS - 1.0))
        counts[row, column] += 1
    return (counts * counts).sum()


class Mesh(NamedTuple):
    """A mesh for a set of points. Created by `select_mesh`."""

    shape: tuple[int, int]
    """Number of nodes along each axis."""
    spacing: float
    """Distance between neighbouring nodes."""
    cutoff: float
    """Distance up to which the kernels are not those of the mesh alone."""
    halvings: int = 0
    """How often the spacing of a coarser mesh was halved, whose smooth kernels are left
    out; 0 if there is none."""


def most_nodes(count: int) -> int:
    """Largest number of nodes of a mesh for `count` points."""
    return min(NODES_PER_POINT * count + 4096, MOST_NODES)


def _margin(constants: Splitting) -> float:
    """Number of nodes by which half of a mesh is longer than the extent of its points."""
    return constants.window.shape[1] + constants.cutoff


def _lengths(constants: Splitting) -> np.ndarray:
    """Possible numbers of nodes along the longer axis."""
    return MESH_SIZES[2 * _margin(constants) < MESH_SIZES]


def largest_square(count: int, constants: Splitting) -> int:
    """Number of nodes of the largest mesh for `count` points whose axes are equally
    long."""
    nodes = _lengths(constants) ** 2
    possible = nodes[nodes <= most_nodes(count)]
    return int(possible.max(initial=nodes[0]))


def _near_pairs(points: np.ndarray, cutoffs: np.ndarray) -> np.ndarray:
    """Estimated numbers (cutoff,) of ordered pairs of points (point, 2) for which a
    cutoff takes time."""
    low, high = bounding_box(points)
    scale = BINS / (float((high - low).max()) or 1.0)
    pairs_per_area = float(_count_pairs(points, low, scale)) * scale**2
    return np.minimum(pairs_per_area * (2.5 * cutoffs) ** 2, float(len(points)) ** 2)


def select_mesh(points: np.ndarray, constants: Splitting) -> Mesh:
    """The mesh with which the sums over points (point, 2) are estimated to take the
    least time."""
    count = len(points)
    low, high = bounding_box(points)
    extent = high - low
    largest = float(extent.max()) or 1.0
    margin = _margin(constants)
    nodes = _lengths(constants)
    spacing = largest / (nodes / 2 - margin)
    eighths = np.ceil((np.divide.outer(extent, spacing) + margin) * 16 / nodes - 1e-9)
    shapes = np.maximum(eighths, 1).astype(int) * nodes // 8
    sizes = shapes.prod(axis=0, dtype=float)
    costs = NODE_COST * sizes + _near_pairs(points, constants.cutoff * spacing)
    allowed = sizes <= most_nodes(count)
    costs[1:][~allowed[1:]] = np.inf
    best = int(np.argmin(costs))
    largest_mesh = int(np.flatnonzero(allowed).max(initial=0))
    if costs[best] > count**2 > 8 * NODE_COST * sizes[largest_mesh]:
        best = largest_mesh  # all pairs seem near; dense regions have finer meshes
    rows, columns = shapes[:, best].tolist()
    return Mesh(
        (rows, columns),
        float(spacing[best]),
        float(constants.cutoff * spacing[best]),
    )


def select_regions(
    cells: PointCells, mesh: Mesh, constants: Splitting
) -> tuple[PointCells, list[Mesh]]:
    """Cells with regions in which points are so dense that a finer mesh for each takes
    much less time, and these meshes."""
    blocks = np.add.reduceat(
        np.diff(cells.starts).reshape(cells.shape),
        np.arange(0, cells.shape[1], BLOCK),
        axis=1,
    )
    labels = ndimage.label(blocks > DENSE, np.ones((3, 3)))[0]
    least = NODE_COST * np.prod(mesh.shape, dtype=float) / 4
    boxes: list[tuple[slice, slice]] = []
    for box in ndimage.find_objects(labels):
        if (labels[box] >= 0).all() and blocks[box].sum() ** 2.0 > least:
            labels[box] = -1  # boxes that overlap this one have no region
            rows, columns = box
            boxes.append((rows, slice(columns.start * BLOCK, columns.stop * BLOCK)))
    regions = with_regions(cells, boxes).regions if boxes else cells.regions
    finer = [
        _finer_mesh(cells.points[regions == number], mesh, constants, least)
        for number in range(1, len(boxes) + 1)
    ]
    meshes = [item for item in finer if item is not None]
    boxes = [box for box, item in zip(boxes, finer, strict=True) if item is not None]
    return (with_regions(cells, boxes) if boxes else cells), meshes


def _finer_mesh(
    points: np.ndarray, mesh: Mesh, constants: Splitting, least: float
) -> Mesh | None:
    """The mesh for some of the points that takes the least time, if it saves half of
    the time of their near pairs, and at least the time of so many pairs."""
    low, high = bounding_box(points)
    margin = _margin(constants)
    spacings = mesh.spacing / 2.0 ** np.arange(MOST_HALVINGS)
    near = _near_pairs(points, constants.cutoff * spacings)
    most = near[0] - max(near[0] / 2, least)
    best = None
    for halvings in range(1, MOST_HALVINGS):
        lengths = 2 * ((high - low) / spacings[halvings] + margin)
        if lengths.max() > FINER_SIZES[-1]:
            break
        rows, columns = FINER_SIZES[np.searchsorted(FINER_SIZES, lengths)].tolist()
        nodes = rows * columns
        cost = NODE_COST * nodes + near[halvings]
        if cost < most and nodes <= np.prod(mesh.shape, dtype=float) / 2:
            spacing = float(spacings[halvings])
            best = Mesh((rows, columns), spacing, constants.cutoff * spacing, halvings)
            most = cost
    return best


def smooth_sums(
    cells: PointCells, mesh: Mesh, constants: Splitting, accuracy: float
) -> tuple[np.ndarray, float]:
    """Sum of the smooth x/r² (point, 2) over all points, and of the smooth 1/r over
    all ordered pairs of points.

    The points are in the order of cells. The second sum includes the pairs of each
    point with itself."""
    spacing = mesh.spacing
    low = cells.low
    width = constants.window.shape[1]
    rows, columns = mesh.shape
    charged_rows = int((cells.high[0] - low[0]) / spacing) + width + 2
    density = np.zeros((charged_rows, columns))
    _spread(
        cells.points,
        cells.slabs(width * spacing),
        low,
        spacing,
        constants,
        columns,
        density.reshape(-1),
    )
    workers = get_num_threads()
    spectrum = fft.rfft(density, workers=workers)
    spectrum = fft.fft(spectrum, rows, axis=0, workers=workers)
    tables = finer_spectra if mesh.halvings else spectra
    potential, inverse = tables(mesh.shape, accuracy, mesh.halvings)
    total = _convolve(spectrum, potential, inverse).sum()
    spectrum = fft.ifft(spectrum, axis=0, overwrite_x=True, workers=workers)
    field = fft.irfft(
        spectrum[:charged_rows], columns, overwrite_x=True, workers=workers
    )
    gradient = _interpolate(
        cells.points, low, spacing, constants, columns, field.reshape(-1)
    )
    for column in gradient.T:
        column -= column.mean()  # action and reaction
    return gradient / spacing, float(total / (rows * columns) / spacing)
