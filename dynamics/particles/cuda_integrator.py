"""Kernels for CUDA devices that advance particles (CA section 6). The equation is in
`dynamics.particles.particle_system`.

A thread sums the forces on one pair sum over all others in their order. What follows is
summed in a fixed order, too, which does not depend on the number of threads. So the
bits of a run depend on that run alone.

There are two ways with the same bits. If the pair sums and their forces fit into shared
memory, one block advances one run for many steps. Otherwise they are in the memory of
the device: in each step one kernel stores the pair sums and another one the forces,
with blocks for parts of the pair sums, and a block for each run moves its particles."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float64

from dynamics.forces import Force
from dynamics.kernels.cuda_functions import square_root
from dynamics.kernels.cuda_launching import (
    WARP,
    cuda_kernel,
    device_function,
    index,
    round_up,
)
from dynamics.particles.cuda_forces import device_forces
from dynamics.particles.force_terms import TINY
from dynamics.particles.integrator import (
    BALANCE_BY_COUNT,
    BALANCE_BY_MAGNITUDE,
    FORCE_NORM,
    LAST_STEP,
    MOVE_NORM,
    NOT_DIVERGED,
    ROUNDING,
    SCALE_OVERALL,
    SCALE_PER_AXIS,
    SQUARED_LIMIT,
    STEP_ALONG_DIRECTION,
    STEP_PER_PARTICLE,
)

MAX_THREADS = 256
SEGMENTS = WARP
"""Parts of a sum over particles or pair sums, each summed by one thread."""


class ParticlePlan(NamedTuple):
    """What kernels of particles are compiled for, and the places of the arrays of a block
    in shared memory, counted in float64."""

    n: int
    dim: int
    pairs: int
    """Number of pair sums."""
    forces: tuple[Force, ...]
    """Without constants and balance."""
    weighed: tuple[bool, ...]
    """(force,) Whether the balance needs its magnitude."""
    twice: bool
    """Whether the force on the pair sum of (i, i) acts twice on particle i."""
    threads: int
    in_shared: bool
    """Whether pair sums and the forces on them are in shared memory."""

    @property
    def places(self) -> dict[str, int]:
        """The first number of each array in shared memory, and the end of them all."""
        size, count = self.n * self.dim, len(self.forces)
        pairs = self.pairs if self.in_shared else 0
        sizes = {
            "x": size,
            "moved": size,
            "force": size,
            "on_tokens": count * size,
            "strength_parts": count * SEGMENTS,
            "parts": SEGMENTS,
            "mean_parts": self.dim * SEGMENTS,
            "spread_parts": self.dim * SEGMENTS,
            "sums": pairs * self.dim,
            "units": pairs * self.dim,
            "fields": pairs * count * self.dim,
            "magnitudes": pairs * count,
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return dict(zip([*sizes, "end"], ends, strict=True))

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 8 * self.places["end"]

    @property
    def numbers_of_pair(self) -> int:
        """Numbers of a pair sum: itself, its direction, and the forces on it."""
        return 2 * self.dim + len(self.forces) * (self.dim + 1)


def block_threads(pairs: int) -> int:
    """Threads of a block that has some number of pair sums."""
    return min(MAX_THREADS, round_up(max(pairs, 1), WARP))


# ------------------------------------------------------------------ sums in a fixed order


@device_function
def _store_sums(thread, threads, values, rows, columns, parts):
    """Sums of values (row x column) over every row of a segment, (segment x column)."""
    for item in range(thread, SEGMENTS * columns, threads):
        segment = item // columns
        column = item - segment * columns
        total = np.float64(0.0)
        for row in range(segment, rows, SEGMENTS):
            total += values[index(row * columns + column)]
        parts[index(item)] = total


@device_function
def _store_squares(thread, threads, values, rows, columns, parts):
    """The same of the squares."""
    for item in range(thread, SEGMENTS * columns, threads):
        segment = item // columns
        column = item - segment * columns
        total = np.float64(0.0)
        for row in range(segment, rows, SEGMENTS):
            value = values[index(row * columns + column)]
            total += value * value
        parts[index(item)] = total


@device_function
def _add_segments(parts, column, columns):
    """The sum of a column over all segments."""
    total = parts[index(column)]
    for segment in range(1, SEGMENTS):
        total += parts[index(segment * columns + column)]
    return total


# ---------------------------------------------------------------- forces on the pair sums


@functools.cache
def _pair_functions(plan: ParticlePlan) -> tuple[Any, Any, np.ndarray]:
    """Device functions that store the pair sums and the forces on them, and the tables
    of the law."""
    dim, pairs, count = plan.dim, plan.pairs, len(plan.forces)
    add_like, add_unlike, tables = device_forces(plan.forces, plan.weighed, dim)

    @device_function
    def store_pair_sums(begin, stride, x, first, second, sums, units):
        """Pair sums and their directions; those too short for a direction are 0."""
        for ij in range(begin, pairs, stride):
            square = np.float64(0.0)
            for axis in range(dim):
                i = index(first[index(ij)] * dim + axis)
                j = index(second[index(ij)] * dim + axis)
                x_ij = x[i] + x[j]
                sums[index(ij * dim + axis)] = x_ij
                square += x_ij * x_ij
            inverse = np.float64(1.0) / square_root(square)
            for axis in range(dim):
                at = index(ij * dim + axis)
                x_ij = sums[at] if square > TINY else np.float64(0.0)
                sums[at] = x_ij
                units[at] = x_ij * inverse if square > TINY else np.float64(0.0)

    @device_function
    def store_fields(
        begin,
        stride,
        sums,
        units,
        class_begins,
        class_ends,
        tables,
        own,
        own_unit,
        total,
        strength,
        fields,
        magnitudes,
    ):
        """The forces on pair sums (pair x force x axis) and their magnitudes (pair x
        force), those by earlier pair sums.

        class_begins, class_ends: (pair,) the pair sums with the same modular sum. own,
        own_unit, total, strength: memory of a thread."""
        for ij in range(begin, pairs, stride):
            for axis in range(dim):
                own[axis] = sums[index(ij * dim + axis)]
                own_unit[axis] = units[index(ij * dim + axis)]
            for number in range(count * dim):
                total[number] = np.float64(0.0)
            for field in range(count):
                strength[field] = np.float64(0.0)
            like_begin = class_begins[index(ij)]
            like_end = class_ends[index(ij)]
            for kl in range(pairs):
                if kl < like_begin or kl >= like_end:
                    add_unlike(
                        own, own_unit, sums, units, kl, kl < ij, tables, total, strength
                    )
                elif kl != ij:
                    add_like(
                        own, own_unit, sums, units, kl, kl < ij, tables, total, strength
                    )
            for number in range(count * dim):
                fields[index(ij * count * dim + number)] = total[number]
            for field in range(count):
                magnitudes[index(ij * count + field)] = strength[field]

    return store_pair_sums, store_fields, tables


def law_tables(plan: ParticlePlan) -> np.ndarray:
    """The tables of the law, which the kernels take."""
    return _pair_functions(plan)[2]


# --------------------------------------------------------------------- steps of a block


@functools.cache
def _force_functions(plan: ParticlePlan) -> tuple[Any, Any]:
    """Device functions that store the fields on the particles, and their balanced
    sum."""
    n, dim, count = plan.n, plan.dim, len(plan.forces)
    size = n * dim
    own_share = 2.0 if plan.twice else 1.0
    threads = plan.threads

    @device_function
    def sum_onto_tokens(thread, fields, pair_of, on_tokens):
        """The fields on every particle (force x token x axis) by those on its pair
        sums. pair_of: (token x token) the number of a pair sum, -1 if there is none."""
        for item in range(thread, count * size, threads):
            field = item // size
            i = (item - field * size) // dim
            axis = item - field * size - i * dim
            total = np.float64(0.0)
            for j in range(n):
                ij = pair_of[index(i * n + j)]
                if ij >= 0:
                    value = fields[index((ij * count + field) * dim + axis)]
                    total += value * own_share if i == j else value
            on_tokens[index(item)] = total

    @device_function
    def add_fields(
        thread, on_tokens, strength_parts, constants, balances, against, counts, force
    ):
        """The sum of all fields with their constants and weights. A weight is 0 if its
        denominator is."""
        for item in range(thread, size, threads):
            total = np.float64(0.0)
            for field in range(count):
                other = against[field]
                weight = np.float64(1.0)
                if balances[field] == BALANCE_BY_MAGNITUDE:
                    below = _add_segments(strength_parts, field, count)
                    above = _add_segments(strength_parts, other, count)
                    weight = above / below if below > 0 else np.float64(0.0)
                elif balances[field] == BALANCE_BY_COUNT:
                    below = counts[field]
                    weight = counts[other] / below if below > 0 else np.float64(0.0)
                factor = weight * constants[field]
                total += on_tokens[index(field * size + item)] * factor
            force[index(item)] = total

    return sum_onto_tokens, add_fields


@functools.cache
def _step_functions(plan: ParticlePlan) -> tuple[Any, Any, Any]:
    """Device functions that move the particles along the force, subtract their mean, and
    scale them."""
    n, dim, threads = plan.n, plan.dim, plan.threads
    size = n * dim
    root_of_number = math.sqrt(n)

    @device_function
    def move(thread, x, force, square, step_size, step_rule, moved):
        """The positions after a step without noise."""
        norm = square_root(square)
        scale = step_size
        if step_rule == STEP_ALONG_DIRECTION:
            scale = step_size * (root_of_number / norm) if norm > 0 else 0.0 * step_size
        for i in range(thread, n, threads):
            inverse = np.float64(1.0)
            if step_rule == STEP_PER_PARTICLE:
                own = np.float64(0.0)
                for axis in range(dim):
                    component = force[index(i * dim + axis)]
                    own += component * component
                length = square_root(own)
                inverse = np.float64(1.0) / length if own > TINY else np.float64(0.0)
            for axis in range(dim):
                at = index(i * dim + axis)
                moved[at] = x[at] + force[at] * inverse * scale

    @device_function
    def centre(thread, mean_parts, moved):
        for item in range(thread, size, threads):
            mean = _add_segments(mean_parts, item % dim, dim) / n
            moved[index(item)] -= mean

    @device_function
    def accept(thread, mean_parts, spread_parts, variance, moved, x, displacement):
        """Scale the moved positions to unit variance and copy them to x. Particles whose
        spread is zero, up to the rounding of their mean, are put at the origin."""
        rounding = n * ROUNDING
        squares = np.float64(0.0)
        means = np.float64(0.0)
        for axis in range(dim):
            mean = _add_segments(mean_parts, axis, dim) / n
            squares += _add_segments(spread_parts, axis, dim)
            means += mean * mean
        for item in range(thread, size, threads):
            at = index(item)
            after = moved[at]
            if variance == SCALE_OVERALL:
                spread = square_root(squares / (n * dim))
                enough = squares - means * rounding
                after = after / spread if enough > 0 else np.float64(0.0)
            elif variance == SCALE_PER_AXIS:
                axis = item % dim
                mean = _add_segments(mean_parts, axis, dim) / n
                own = _add_segments(spread_parts, axis, dim)
                spread = square_root(own / n)
                enough = own - mean * mean * rounding
                after = after / spread if enough > 0 else np.float64(0.0)
            displacement[at] = after - x[at]
            x[at] = after

    return move, centre, accept


# ------------------------------------------------------------------------------- kernels


@functools.cache
def particle_mover(plan: ParticlePlan) -> Any:
    """The kernel that advances runs, one block each; unless `plan.in_shared`, along forces
    that are given."""
    store_pair_sums, store_fields, _ = _pair_functions(plan)
    sum_onto_tokens, add_fields = _force_functions(plan)
    move, centre, accept = _step_functions(plan)
    n, dim, pairs, count = plan.n, plan.dim, plan.pairs, len(plan.forces)
    size, numbers = n * dim, count * dim
    threads, in_shared = plan.threads, plan.in_shared
    places = plan.places
    at_moved, at_force = places["moved"], places["force"]
    at_on_tokens, at_strength_parts = places["on_tokens"], places["strength_parts"]
    at_parts, at_mean_parts = places["parts"], places["mean_parts"]
    at_spread_parts, at_sums = places["spread_parts"], places["sums"]
    at_units, at_fields = places["units"], places["fields"]
    at_magnitudes, end = places["magnitudes"], places["end"]

    @cuda_kernel
    def move_particles(
        all_positions,
        all_forces,
        track,
        noise,
        has_noise,
        begin,
        steps,
        first,
        second,
        class_begins,
        class_ends,
        pair_of,
        tables,
        all_fields,
        all_magnitudes,
        constants,
        balances,
        against,
        counts,
        step_size,
        step_rule,
        variance,
    ):
        """Take `steps` steps; with 0 steps only the force and its norm are computed.

        all_positions, all_forces: (run, token x axis); track: (run, row); noise: (run,
        step, token x axis), of which step `begin` is the first one. all_fields: (run,
        pair x force x axis) and all_magnitudes: (run, pair x force) of one step, unless
        they are in shared memory."""
        run = cuda.blockIdx.x
        thread = np.int64(np.uint32(cuda.threadIdx.x))
        shared = cuda.shared.array(0, float64)
        x = shared[:at_moved]
        moved = shared[at_moved:at_force]
        force = shared[at_force:at_on_tokens]
        on_tokens = shared[at_on_tokens:at_strength_parts]
        strength_parts = shared[at_strength_parts:at_parts]
        parts = shared[at_parts:at_mean_parts]
        mean_parts = shared[at_mean_parts:at_spread_parts]
        spread_parts = shared[at_spread_parts:at_sums]
        own = cuda.local.array(dim, float64)
        own_unit = cuda.local.array(dim, float64)
        total = cuda.local.array(numbers, float64)
        strength = cuda.local.array(count, float64)
        fields = all_fields[run]
        magnitudes = all_magnitudes[run]
        if in_shared:
            fields = shared[at_fields:at_magnitudes]
            magnitudes = shared[at_magnitudes:end]
        is_running = track[run, NOT_DIVERGED] > 0
        last_step = track[run, LAST_STEP]
        force_norm = track[run, FORCE_NORM]
        move_norm = track[run, MOVE_NORM]
        for at in range(thread, size, threads):
            x[index(at)] = all_positions[run, at]
        cuda.syncthreads()
        for step in range(max(1, steps)):
            if steps > 0 and not is_running:
                break
            if in_shared:
                sums = shared[at_sums:at_units]
                units = shared[at_units:at_fields]
                store_pair_sums(thread, threads, x, first, second, sums, units)
                cuda.syncthreads()
                store_fields(
                    thread,
                    threads,
                    sums,
                    units,
                    class_begins,
                    class_ends,
                    tables,
                    own,
                    own_unit,
                    total,
                    strength,
                    fields,
                    magnitudes,
                )
                cuda.syncthreads()
            _store_sums(thread, threads, magnitudes, pairs, count, strength_parts)
            sum_onto_tokens(thread, fields, pair_of, on_tokens)
            cuda.syncthreads()
            add_fields(
                thread,
                on_tokens,
                strength_parts,
                constants,
                balances,
                against,
                counts,
                force,
            )
            cuda.syncthreads()
            _store_squares(thread, threads, force, size, 1, parts)
            cuda.syncthreads()
            force_square = _add_segments(parts, 0, 1)
            if steps == 0:
                force_norm = square_root(force_square)
                break
            move(thread, x, force, force_square, step_size, step_rule, moved)
            cuda.syncthreads()
            if has_noise:
                for at in range(thread, size, threads):
                    moved[index(at)] += noise[run, begin + step, at]
            cuda.syncthreads()
            _store_sums(thread, threads, moved, n, dim, mean_parts)
            cuda.syncthreads()
            centre(thread, mean_parts, moved)
            cuda.syncthreads()
            _store_squares(thread, threads, moved, n, dim, spread_parts)
            cuda.syncthreads()
            square = np.float64(0.0)
            for axis in range(dim):
                square += _add_segments(spread_parts, axis, dim)
            is_running = SQUARED_LIMIT - force_square > 0 and SQUARED_LIMIT - square > 0
            if not is_running:
                break
            accept(thread, mean_parts, spread_parts, variance, moved, x, force)
            cuda.syncthreads()
            _store_squares(thread, threads, force, size, 1, parts)
            cuda.syncthreads()
            last_step += 1
            force_norm = square_root(force_square)
            move_norm = square_root(_add_segments(parts, 0, 1))
        for at in range(thread, size, threads):
            all_positions[run, at] = x[index(at)]
            if steps == 0:
                all_forces[run, at] = force[index(at)]
        if thread == 0:
            track[run, NOT_DIVERGED] = 1.0 if is_running else 0.0
            track[run, LAST_STEP] = last_step
            track[run, FORCE_NORM] = force_norm
            track[run, MOVE_NORM] = move_norm

    return move_particles


@functools.cache
def pair_sum_kernel(plan: ParticlePlan) -> Any:
    """The kernel that stores the pair sums of runs in the memory of the device."""
    store_pair_sums = _pair_functions(plan)[0]
    threads = plan.threads

    @cuda_kernel
    def sum_pairs(all_positions, first, second, all_sums, all_units, parts):
        """all_positions: (run, token x axis); all_sums, all_units: (run, pair x axis);
        each run has `parts` blocks."""
        run = cuda.blockIdx.x // parts
        part = cuda.blockIdx.x - run * parts
        begin = np.int64(part * threads + cuda.threadIdx.x)
        store_pair_sums(
            begin,
            parts * threads,
            all_positions[run],
            first,
            second,
            all_sums[run],
            all_units[run],
        )

    return sum_pairs


@functools.cache
def pair_field_kernel(plan: ParticlePlan) -> Any:
    """The kernel that stores the forces on the pair sums of runs."""
    store_fields = _pair_functions(plan)[1]
    threads, dim, count = plan.threads, plan.dim, len(plan.forces)
    numbers = count * dim

    @cuda_kernel
    def sum_fields(
        all_sums,
        all_units,
        class_begins,
        class_ends,
        tables,
        all_fields,
        all_magnitudes,
        parts,
    ):
        """Arrays as in `sum_pairs` and `move_particles`; each run has `parts` blocks."""
        own = cuda.local.array(dim, float64)
        own_unit = cuda.local.array(dim, float64)
        total = cuda.local.array(numbers, float64)
        strength = cuda.local.array(count, float64)
        run = cuda.blockIdx.x // parts
        part = cuda.blockIdx.x - run * parts
        begin = np.int64(part * threads + cuda.threadIdx.x)
        store_fields(
            begin,
            parts * threads,
            all_sums[run],
            all_units[run],
            class_begins,
            class_ends,
            tables,
            own,
            own_unit,
            total,
            strength,
            all_fields[run],
            all_magnitudes[run],
        )

    return sum_fields
