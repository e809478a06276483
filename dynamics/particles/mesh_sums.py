"""Sums of the smooth kernels over all pairs of points by a mesh and Fourier transforms
(particle-mesh Ewald method).

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

MESH_SIZES, LINE_SIZES = (
    np.sort(
        [16 * factor << power for factor in (2, 3, 4, 5, 7) for power in range(most)]
    )
    for most in (8, 20)
)
"""Numbers of nodes along the longest axis, and on a line; multiples of 16, with small
factors."""
NODES_PER_POINT = {1: 8, 2: 24, 3: 64, 4: 128}
"""Largest number of nodes relative to the number of points, by dimension."""
MOST_NODES = 2**26
"""Largest number of nodes in all."""
NODE_COST = 15.0
"""Time of a node relative to that of a pair of near points, measured."""
BLOCK = COLUMNS // REACH
"""Number of cells that form a block with equal sides."""
DENSE, MOST_HALVINGS = 256, 16
"""Number of points from which a block is dense; the spacing of the mesh of a dense
region is halved less often than the second."""
BINS = 4096
"""Number of cells in which points are counted to estimate the number of near pairs."""
CHUNK = 256
"""Points whose fields one thread interpolates at a time."""


@kernel_function
def _node_weights(points, point, low, inverse, polynomials, terms, width, mesh, values):
    """Write the values (axis, polynomial) of the polynomials around a point; return the
    index of its first node.

    Here and below arrays are flat and no part of one is passed on, as a view costs more
    than what is computed here."""
    number = len(values) // len(mesh)
    first = 0
    for axis in range(len(mesh)):
        position = (points[point, axis] - low[axis]) * inverse + width // 2
        node = np.int64(position)
        first = first * mesh[axis] + node - width // 2 + 1
        variable = scalars(2 * (position - node) - 1)
        for start in range(0, number, LANES_64):
            value = load_scalars_at(polynomials, start)
            for term in range(1, terms):
                value = multiply_add(
                    value, variable, load_scalars_at(polynomials, term * number + start)
                )
            store_scalars_at(values, axis * number + start, value)
    return first


@kernel_function
def _multiply_axes(values, width, dim, derivative, products):
    """Products (node,) of the weights along all axes but the last, with the slope along
    the axis `derivative`."""
    number = len(values) // dim
    products[0] = 1.0
    size = 1
    for axis in range(dim - 1):
        first = axis * number + (width if axis == derivative else 0)
        for k in range(size - 1, -1, -1):
            product = scalars(products[k])
            for start in range(0, width, LANES_64):
                store_scalars_at(
                    products,
                    k * width + start,
                    load_scalars_at(values, first + start) * product,
                )
        size *= width


@kernel_function
def _node_offsets(mesh, width):
    """Offsets (node,) of the rows of nodes around a point from the first of them."""
    dim = len(mesh)
    size = 1
    for _ in range(dim - 1):
        size *= width
    offsets = np.zeros(size, np.int64)
    for k in range(size):
        rest = k
        stride = mesh[dim - 1]
        for axis in range(dim - 2, -1, -1):
            offsets[k] += rest % width * stride
            rest = rest // width
            stride = stride * mesh[axis]
    return offsets


@cached_kernel(simd, parallel=True)
def _spread(points, slabs, low, spacing, constants, mesh, density):
    """Add a unit charge at each point to the density (node,)."""
    dim = points.shape[1]
    terms, width = constants.window.shape
    offsets = _node_offsets(mesh, width)
    polynomials = constants.window.reshape(-1)
    for parity in range(2):
        for number in prange((len(slabs) - parity) // 2):
            slab = 2 * np.int64(number) + parity
            values = aligned_numbers(dim * width)
            products = aligned_numbers(len(offsets))
            for point in range(slabs[slab], slabs[slab + 1]):
                first = _node_weights(
                    points,
                    point,
                    low,
                    1 / spacing,
                    polynomials,
                    terms,
                    width,
                    mesh,
                    values,
                )
                _multiply_axes(values, width, dim, -1, products)
                for k in range(len(offsets)):
                    product = scalars(products[k])
                    for start in range(0, width, LANES_64):
                        node = first + offsets[k] + start
                        weights = load_scalars_at(values, (dim - 1) * width + start)
                        store_scalars_at(
                            density,
                            node,
                            multiply_add(
                                weights, product, load_scalars_at(density, node)
                            ),
                        )


@cached_kernel(parallel=True)
def _convolve(spectrum, mesh, potential, inverse):
    """Multiply the spectrum (row, frequency) by that of the potential; return sums
    (row,) of 1/r of all pairs."""
    rows, size = spectrum.shape
    sums = np.empty(rows)
    for number in prange(rows):
        row = np.int64(number)
        rest = row
        source = 0
        stride = 1
        for axis in range(len(mesh) - 2, -1, -1):
            frequency = rest % mesh[axis]
            source += min(frequency, mesh[axis] - frequency) * stride
            rest = rest // mesh[axis]
            stride = stride * (mesh[axis] // 2 + 1)
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


@cached_kernel(simd, parallel=True)
def _interpolate(points, low, spacing, constants, mesh, potential):
    """Gradient (point, axis) of the potential (node,) at the points, per unit of the
    mesh.

    Of the potential, its value near the point is subtracted first, which would add to
    the error of interpolation."""
    count, dim = points.shape
    terms, width = constants.window.shape
    offsets = _node_offsets(mesh, width)
    polynomials = constants.window_and_slope.reshape(-1)
    gradient = np.empty((count, dim))
    for chunk in prange(-(-count // CHUNK)):
        values = aligned_numbers(2 * dim * width)
        products = aligned_numbers(len(offsets))
        lanes = aligned_numbers(LANES_64)
        begin = np.int64(chunk) * CHUNK
        for point in range(begin, min(begin + CHUNK, count)):
            first = _node_weights(
                points, point, low, 1 / spacing, polynomials, terms, width, mesh, values
            )
            reference = scalars(
                potential[first + offsets[len(offsets) // 2] + width // 2]
            )
            for axis in range(dim):
                _multiply_axes(values, width, dim, axis, products)
                total = scalars(0.0)
                last = 2 * (dim - 1) * width + (width if axis == dim - 1 else 0)
                for start in range(0, width, LANES_64):
                    along = scalars(0.0)
                    for k in range(len(offsets)):
                        value = (
                            load_scalars_at(potential, first + offsets[k] + start)
                            - reference
                        )
                        along = multiply_add(value, scalars(products[k]), along)
                    total = multiply_add(
                        along, load_scalars_at(values, last + start), total
                    )
                store_scalars_at(lanes, 0, total)
                gradient[point, axis] = 0.0
                for k in range(LANES_64):
                    gradient[point, axis] += lanes[k]
    return gradient


@cached_kernel()
def _count_pairs(points, low, scale, bins):
    """Number of ordered pairs of points in the same bin, those of each point with
    itself included."""
    counts = np.zeros(bins ** points.shape[1], np.int64)
    total = 0
    for point in range(len(points)):
        cell = 0
        for axis in range(points.shape[1]):
            cell = cell * bins + min(
                np.int64((points[point, axis] - low[axis]) * scale), bins - 1
            )
        counts[cell] += 1
        total += 2 * counts[cell] - 1
    return total


class Mesh(NamedTuple):
    """A mesh for a set of points. Created by `select_mesh`."""

    shape: tuple[int, ...]
    """(axis,) Number of nodes."""
    spacing: float
    """Distance between neighbouring nodes."""
    cutoff: float
    """Distance up to which the kernels are not those of the mesh alone."""
    halvings: int = 0
    """How often the spacing of a coarser mesh was halved, whose smooth kernels are left
    out; 0 if there is none."""


def most_nodes(count: int, dim: int) -> int:
    """Largest number of nodes of a mesh for `count` points."""
    return min(NODES_PER_POINT[dim] * count + 4096, MOST_NODES)


def _lengths(dim: int, constants: Splitting) -> np.ndarray:
    """Possible numbers of nodes along the longest axis."""
    sizes = LINE_SIZES if dim == 1 else MESH_SIZES
    return sizes[sizes > 2 * (constants.window.shape[1] + constants.cutoff)]


def largest_cube(count: int, dim: int, constants: Splitting) -> int:
    """Number of nodes of the largest mesh for `count` points whose axes are equally
    long."""
    nodes = _lengths(dim, constants).astype(float) ** dim
    possible = nodes[nodes <= most_nodes(count, dim)]
    return int(possible.max(initial=nodes[0]))


def _near_pairs(points: np.ndarray, cutoffs: np.ndarray) -> np.ndarray:
    """Estimated numbers (cutoff,) of ordered pairs of points (point, axis) for which a
    cutoff takes time."""
    count, dim = points.shape
    low, high = bounding_box(points)
    bins = int(BINS ** (1 / dim))
    largest = float((high - low).max()) or 1.0
    pairs_per_volume = (
        float(_count_pairs(points, low, bins / largest, bins)) * (bins / largest) ** dim
    )
    return np.minimum(pairs_per_volume * (2.5 * cutoffs) ** dim, float(count) ** 2)


def select_mesh(points: np.ndarray, constants: Splitting) -> Mesh:
    """The mesh with which the sums over points (point, axis) are estimated to take the
    least time."""
    count, dim = points.shape
    low, high = bounding_box(points)
    extent = high - low
    largest = float(extent.max()) or 1.0
    margin = constants.window.shape[1] + constants.cutoff
    nodes = _lengths(dim, constants)
    spacing = largest / (nodes / 2 - margin)
    eighths = np.ceil((np.divide.outer(extent, spacing) + margin) * 16 / nodes - 1e-9)
    shapes = np.maximum(eighths, 1).astype(int) * nodes // 8
    sizes = shapes.prod(axis=0, dtype=float)
    costs = NODE_COST * sizes + _near_pairs(points, constants.cutoff * spacing)
    allowed = sizes <= most_nodes(count, dim)
    costs[1:][~allowed[1:]] = np.inf
    best = int(np.argmin(costs))
    largest_mesh = int(np.flatnonzero(allowed).max(initial=0))
    if costs[best] > count**2 > 8 * NODE_COST * sizes[largest_mesh]:
        best = largest_mesh  # all pairs seem near; dense regions have finer meshes
    return Mesh(
        tuple(shapes[:, best].tolist()),
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
        np.arange(0, cells.shape[-1], BLOCK),
        axis=-1,
    )
    labels = ndimage.label(blocks > DENSE, np.ones([3] * blocks.ndim))[0]
    least = NODE_COST * np.prod(mesh.shape, dtype=float) / 4
    boxes: list[tuple[slice, ...]] = []
    for box in ndimage.find_objects(labels):
        if (labels[box] >= 0).all() and blocks[box].sum() ** 2.0 > least:
            labels[box] = -1  # boxes that overlap this one have no region
            boxes.append(
                (*box[:-1], slice(box[-1].start * BLOCK, box[-1].stop * BLOCK))
            )
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
    margin = constants.window.shape[1] + constants.cutoff
    spacings = mesh.spacing / 2.0 ** np.arange(MOST_HALVINGS)
    near = _near_pairs(points, constants.cutoff * spacings)
    most = near[0] - max(near[0] / 2, least)
    best = None
    for halvings in range(1, MOST_HALVINGS):
        lengths = 2 * ((high - low) / spacings[halvings] + margin)
        if lengths.max() > LINE_SIZES[-1]:
            break
        shape = tuple(LINE_SIZES[np.searchsorted(LINE_SIZES, lengths)].tolist())
        nodes = np.prod(shape, dtype=float)
        cost = NODE_COST * nodes + near[halvings]
        if cost < most and nodes <= np.prod(mesh.shape, dtype=float) / 2:
            spacing = float(spacings[halvings])
            best = Mesh(shape, spacing, constants.cutoff * spacing, halvings)
            most = cost
    return best


def smooth_sums(
    cells: PointCells, mesh: Mesh, constants: Splitting, accuracy: float
) -> tuple[np.ndarray, float]:
    """Sum of the smooth x/r² (point, axis) over all points, and of the smooth 1/r over
    all ordered pairs of points.

    The points are in the order of cells. The second sum includes the pairs of each
    point with itself."""
    spacing = mesh.spacing
    low = cells.low
    width = constants.window.shape[1]
    frequencies = mesh.shape[-1] // 2 + 1
    tables = finer_spectra if mesh.halvings else spectra
    potential, inverse = (
        table.reshape(-1, frequencies)
        for table in tables(mesh.shape, accuracy, mesh.halvings)
    )
    used = [
        int(length) + width + 2 for length in (cells.high - low) / spacing
    ]  # rows of other nodes have no charge
    used[-1] = mesh.shape[-1]
    density = np.zeros(used)
    _spread(
        cells.points,
        cells.slabs(width * spacing),
        low,
        spacing,
        constants,
        np.array(used),
        density.reshape(-1),
    )
    workers = get_num_threads()
    outer = range(len(used) - 1)
    spectrum = fft.rfft(density, workers=workers)
    for axis in outer:
        spectrum = fft.fft(spectrum, mesh.shape[axis], axis=axis, workers=workers)
    total = _convolve(
        spectrum.reshape(-1, frequencies), np.array(mesh.shape), potential, inverse
    ).sum()
    for axis in outer:
        spectrum = fft.ifft(spectrum, axis=axis, overwrite_x=True, workers=workers)
        spectrum = np.ascontiguousarray(
            np.moveaxis(np.moveaxis(spectrum, axis, 0)[: used[axis]], 0, axis)
        )
    field = fft.irfft(spectrum, mesh.shape[-1], overwrite_x=True, workers=workers)
    gradient = _interpolate(
        cells.points, low, spacing, constants, np.array(used), field.reshape(-1)
    )
    for column in gradient.T:
        column -= column.mean()  # action and reaction
    return gradient / spacing, float(total / np.prod(mesh.shape, dtype=float) / spacing)
