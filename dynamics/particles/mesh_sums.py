"""Sums of the smooth kernels over all pairs of points by a mesh and Fourier transforms (particle-mesh Ewald method).

Points are spread to the nodes of a mesh, convolved there with the kernels (`split_kernels`), and the field is
interpolated at the points; the gradient is that of the interpolation. The mesh is twice as long as the points extend,
so that the periodic convolution is the one in free space. Points are spread slab after slab, every second one at a
time, so that the order of summation is the same for any number of threads.
"""

from typing import NamedTuple

import numpy as np
from numba import get_num_threads, prange
from scipy import fft

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import LANES_64, load_scalars, multiply_add, scalars, store_scalars
from dynamics.particles.point_cells import PointCells
from dynamics.particles.split_kernels import Splitting, spectra

MESH_SIZES = tuple(sorted(16 * factor << power for factor in (2, 3, 4, 5, 7) for power in range(8)))
"""Numbers of nodes along the longest axis; multiples of 16, with small factors."""
NODES_PER_POINT, MOST_NODES = {1: 8, 2: 24, 3: 64, 4: 128}, 2**26
"""Largest number of nodes, relative to the number of points for each dimension, and in all."""
NODE_COST = 15.0
"""Time of a node relative to that of a pair of near points, measured."""
BINS = 4096
"""Number of cells in which points are counted to estimate the number of near pairs."""
CHUNK = 256
"""Points whose fields one thread interpolates at a time."""


@kernel_function
def _polynomials(coefficients, variable, values):
    """Write the values (node,) of polynomials (term, node), highest power first."""
    for group in range(coefficients.shape[1] // LANES_64):
        value = load_scalars(coefficients[0], group)
        for k in range(1, len(coefficients)):
            value = multiply_add(value, variable, load_scalars(coefficients[k], group))
        store_scalars(values, group, value)


@kernel_function
def _node_weights(points, point, low, spacing, window, values, mesh):
    """Write the weights (axis, node), or their slopes, of the nodes around a point; return the index of the first."""
    dim, width = values.shape
    first = 0
    for axis in range(dim):
        position = (points[point, axis] - low[axis]) / spacing + width // 2
        node = np.int64(position)
        first = first * mesh[axis] + node - width // 2 + 1
        _polynomials(window, scalars(2 * (position - node) - 1), values[axis])
    return first


@kernel_function
def _multiply_axes(values, slopes, derivative, products):
    """Products (node,) of the weights along all axes but the last, with the slope along the axis `derivative`."""
    dim, width = values.shape
    products[0], size = 1.0, 1
    for axis in range(dim - 1):
        weights = slopes[axis] if axis == derivative else values[axis]
        for k in range(size - 1, -1, -1):
            product = products[k]
            for node in range(width):
                products[k * width + node] = product * weights[node]
        size *= width


@kernel_function
def _node_offsets(mesh, width):
    """Offsets (node,) of the rows of nodes around a point from the first of them."""
    dim, size = len(mesh), 1
    for _ in range(dim - 1):
        size *= width
    offsets = np.zeros(size, np.int64)
    for k in range(size):
        rest, stride = k, mesh[dim - 1]
        for axis in range(dim - 2, -1, -1):
            offsets[k] += rest % width * stride
            rest, stride = rest // width, stride * mesh[axis]
    return offsets


@cached_kernel(simd, parallel=True)
def _spread(points, slabs, low, spacing, constants, mesh, density):
    """Add a unit charge at each point to the density (node,)."""
    dim, width = points.shape[1], constants.window.shape[1]
    offsets = _node_offsets(mesh, width)
    for parity in range(2):
        for number in prange((len(slabs) - parity) // 2):
            slab = 2 * np.int64(number) + parity
            values, products = np.empty((dim, width)), np.empty(len(offsets))
            for point in range(slabs[slab], slabs[slab + 1]):
                first = _node_weights(points, point, low, spacing, constants.window, values, mesh)
                _multiply_axes(values, values, -1, products)
                for k in range(len(offsets)):
                    row = density[first + offsets[k] : first + offsets[k] + width]
                    for group in range(width // LANES_64):
                        added = load_scalars(values[dim - 1], group) * scalars(products[k])
                        store_scalars(row, group, load_scalars(row, group) + added)


@cached_kernel(parallel=True)
def _convolve(spectrum, mesh, potential, inverse):
    """Multiply the spectrum (row, frequency) by that of the potential; return sums (row,) of 1/r of all pairs."""
    rows, size = spectrum.shape
    sums = np.empty(rows)
    for number in prange(rows):
        row = np.int64(number)
        rest, source, stride = row, 0, 1
        for axis in range(len(mesh) - 2, -1, -1):
            frequency = rest % mesh[axis]
            source += min(frequency, mesh[axis] - frequency) * stride
            rest, stride = rest // mesh[axis], stride * (mesh[axis] // 2 + 1)
        total = 0.0
        for k in range(size):
            value = spectrum[row, k]
            weight = 1.0 if k == 0 or k == size - 1 else 2.0
            total += weight * inverse[source, k] * (value.real * value.real + value.imag * value.imag)
            spectrum[row, k] = value * potential[source, k]
        sums[row] = total
    return sums


@cached_kernel(simd, parallel=True)
def _interpolate(points, low, spacing, constants, mesh, potential):
    """Gradient (point, axis) of the potential (node,) at the points, per unit of the mesh.

    Of the potential, its value near the point is subtracted first, which would add to the error of interpolation.
    """
    (count, dim), width = points.shape, constants.window.shape[1]
    offsets = _node_offsets(mesh, width)
    gradient = np.empty((count, dim))
    for chunk in prange(-(-count // CHUNK)):
        values, slopes, products = np.empty((dim, width)), np.empty((dim, width)), np.empty(len(offsets))
        lanes = np.empty(LANES_64)
        begin = np.int64(chunk) * CHUNK
        for point in range(begin, min(begin + CHUNK, count)):
            first = _node_weights(points, point, low, spacing, constants.window, values, mesh)
            _node_weights(points, point, low, spacing, constants.slope, slopes, mesh)
            reference = scalars(potential[first + offsets[len(offsets) // 2] + width // 2])
            for axis in range(dim):
                _multiply_axes(values, slopes, axis, products)
                weights = slopes[axis] if axis == dim - 1 else values[dim - 1]
                total = scalars(0.0)
                for k in range(len(offsets)):
                    row = potential[first + offsets[k] : first + offsets[k] + width]
                    for group in range(width // LANES_64):
                        value = load_scalars(row, group) - reference
                        total += (value * load_scalars(weights, group)) * scalars(products[k])
                store_scalars(lanes, 0, total)
                gradient[point, axis] = lanes.sum()
    return gradient


class Mesh(NamedTuple):
    """A mesh for a set of points. Created by `select_mesh`."""

    shape: tuple[int, ...]
    """(axis,) Number of nodes."""
    spacing: float
    """Distance between neighbouring nodes."""
    cutoff: float
    """Distance up to which the kernels are not those of the mesh alone."""


def most_nodes(count: int, dim: int) -> int:
    """Largest number of nodes of a mesh for `count` points."""
    return min(NODES_PER_POINT[dim] * count + 4096, MOST_NODES)


def select_mesh(points: np.ndarray, constants: Splitting) -> Mesh:
    """The mesh with which the sums over points (point, axis) are estimated to take the least time."""
    count, dim = points.shape
    columns = [column - column.min() for column in points.T]
    extent = np.array([column.max() for column in columns])
    largest = float(extent.max()) or 1.0
    margin = constants.window.shape[1] + constants.cutoff
    bins, index = int(BINS ** (1 / dim)), 0
    for column in columns:
        index = index * bins + np.minimum(column * (bins / largest), bins - 1).astype(np.int64)
    pairs_per_volume = float((np.bincount(index).astype(np.float64) ** 2).sum()) * (bins / largest) ** dim
    meshes: list[Mesh] = []
    costs: list[float] = []
    for nodes in (nodes for nodes in MESH_SIZES if nodes > 2 * margin):
        spacing = largest / (nodes / 2 - margin)
        eighths = np.maximum(np.ceil((extent / spacing + margin) * 16 / nodes - 1e-9), 1).astype(int)
        shape = tuple(int(each) * nodes // 8 for each in eighths)
        near = pairs_per_volume * (2.5 * constants.cutoff * spacing) ** dim
        size = float(np.prod(shape, dtype=float))
        if not meshes or size <= most_nodes(count, dim):
            meshes.append(Mesh(shape, spacing, constants.cutoff * spacing))
            costs.append(NODE_COST * size + min(near, float(count) ** 2))
    return meshes[int(np.argmin(costs))]


def smooth_sums(cells: PointCells, mesh: Mesh, constants: Splitting, accuracy: float) -> tuple[np.ndarray, float]:
    """Sum of the smooth x/r² (point, axis) over all points, and of the smooth 1/r over all ordered pairs of points.

    The points are in the order of cells. The second sum includes the pairs of each point with itself.
    """
    spacing, low, width = mesh.spacing, cells.low, constants.window.shape[1]
    frequencies = mesh.shape[-1] // 2 + 1
    potential, inverse = (table.reshape(-1, frequencies) for table in spectra(mesh.shape, accuracy))
    used = tuple(int(np.ptp(column) / spacing) + width + 2 for column in cells.points.T)  # other nodes have no charge
    density = np.zeros(used)
    _spread(cells.points, cells.slabs(width * spacing), low, spacing, constants, np.array(used), density.reshape(-1))
    workers, outer = get_num_threads(), range(len(used) - 1)
    spectrum = fft.rfft(density, mesh.shape[-1], workers=workers)
    for axis in outer:
        spectrum = fft.fft(spectrum, mesh.shape[axis], axis=axis, workers=workers)
    total = _convolve(spectrum.reshape(-1, frequencies), np.array(mesh.shape), potential, inverse).sum()
    for axis in outer:
        spectrum = fft.ifft(spectrum, axis=axis, overwrite_x=True, workers=workers)
        spectrum = np.ascontiguousarray(np.moveaxis(np.moveaxis(spectrum, axis, 0)[: used[axis]], 0, axis))
    field = np.ascontiguousarray(fft.irfft(spectrum, mesh.shape[-1], workers=workers)[..., : used[-1]])
    gradient = _interpolate(cells.points, low, spacing, constants, np.array(used), field.reshape(-1))
    gradient -= np.array([column.mean() for column in gradient.T])  # action and reaction
    return gradient / spacing, float(total / np.prod(mesh.shape, dtype=float) / spacing)
