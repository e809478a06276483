"""Reference implementations in plain loops: the pair forces, one step, circles and grid
imperfections.

Everything is written as in the paper (CA equations 2-4, section 6, appendix A), one
pair of pairs at a time, without optimisation. The functions run in Python and also
compile with ``numba.njit``, as the baseline of the benchmarks."""

import numpy as np

TINY = 1e-280  # squared lengths up to this count as zero, as `dynamics.particles.pair_forces` documents


def pairs_of(n, diagonal):
    """All pairs i <= j in the order of Algorithm 2; without i = j where `diagonal` is
    false."""
    return [(i, j) for i in range(n) for j in range(i, n) if diagonal or i != j]


def fields(x, first, second, n, twice):
    """The four force fields on every particle, with their constants set to 1, and their
    summed magnitudes.

    x (token, axis); first, second (pair); returns (field, token, axis) and (field,),
    the fields in the order like attraction, unlike repulsion, like alignment, unlike
    alignment."""
    pairs = len(first)
    dim = x.shape[1]
    force = np.zeros((4, n, dim))
    magnitude = np.zeros(4)
    for ij in range(pairs):
        i, j = first[ij], second[ij]
        for kl in range(pairs):
            if ij == kl:
                continue
            k, l = first[kl], second[kl]  # noqa: E741 - the paper's letters
            distance2 = 0.0
            norm2_ij = 0.0
            norm2 = 0.0
            dot = 0.0
            for a in range(dim):
                difference = (x[i, a] + x[j, a]) - (x[k, a] + x[l, a])
                distance2 += difference * difference
                norm2_ij += (x[i, a] + x[j, a]) * (x[i, a] + x[j, a])
                norm2 += (x[k, a] + x[l, a]) * (x[k, a] + x[l, a])
                dot += (x[i, a] + x[j, a]) * (x[k, a] + x[l, a])
            like = (i + j) % n == (k + l) % n
            if distance2 > TINY:
                distance = np.sqrt(distance2)
                law = 0 if like else 1
                magnitude[law] += 1.0 if like else 1.0 / distance
                for a in range(dim):
                    if like:  # equation 3
                        g = ((x[k, a] + x[l, a]) - (x[i, a] + x[j, a])) / distance
                    else:  # equation 2
                        g = ((x[i, a] + x[j, a]) - (x[k, a] + x[l, a])) / (
                            distance * distance
                        )
                    force[law, i, a] += g
                    if twice or i != j:
                        force[law, j, a] += g
            if dot > 0.0 and norm2 > TINY and norm2_ij > TINY:  # equation 4
                law = 2 if like else 3
                magnitude[law] += 1.0
                for a in range(dim):
                    g = (x[k, a] + x[l, a]) / np.sqrt(norm2)
                    if not like:
                        g = -g
                    force[law, i, a] += g
                    if twice or i != j:
                        force[law, j, a] += g
    return force, magnitude


def ratio(balance, like, unlike, like_count, unlike_count):
    """The weight of an unlike field relative to its like field."""
    if balance == "none":
        return 1.0
    if balance == "count":
        like, unlike = like_count, unlike_count
    return like / unlike if unlike > 0 else 0.0


def total_force(x, settings):
    """The balanced force of section 6 on every particle, (token, axis)."""
    s = settings
    pairs = pairs_of(s.n, s.diagonal != "none")
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    force, magnitude = fields(x, first, second, s.n, s.diagonal == "twice")
    like = unlike = 0
    for i, j in pairs:
        for k, m in pairs:
            if (i + j) % s.n != (k + m) % s.n:
                unlike += 1
            elif (i, j) != (k, m):
                like += 1
    repulsion = ratio(s.repulsion_balance, magnitude[0], magnitude[1], like, unlike)
    alignment = ratio(s.alignment_balance, magnitude[2], magnitude[3], like, unlike)
    return (
        s.ga * force[0]
        + s.gr * repulsion * force[1]
        + s.fa * (force[2] + alignment * force[3])
    )


def normalise(x, variance):
    """Zero mean, and standard deviation 1 over all coordinates, or along each axis, or
    not scaled."""
    mean = x.mean(axis=0)
    x = x - mean
    rounding = (
        len(x) * mean**2 * (16 * np.finfo(float).eps) ** 2
    )  # what subtracting the mean leaves of it
    if variance == "none":
        return x
    if variance == "overall":
        return x / np.sqrt((x**2).mean()) if (x**2).sum() > rounding.sum() else 0 * x
    enough = (x**2).sum(axis=0) > rounding
    return np.where(
        enough, x / np.where(enough, np.sqrt((x**2).mean(axis=0)), 1.0), 0.0
    )


def step(x, settings):
    """One step of CA section 6: force, move, normalisation."""
    force = total_force(x, settings)
    if settings.step_rule == "force":
        move = force
    elif settings.step_rule == "direction":
        norm = np.sqrt((force**2).sum())
        move = force * (np.sqrt(settings.n) / norm) if norm > 0 else force
    else:
        norm = np.sqrt((force**2).sum(axis=1, keepdims=True))
        move = force / np.where(norm > 0, norm, 1.0)
    return normalise(x + settings.step_size * move, settings.variance)


def is_circle(x):
    """Whether an embedding (token, axis) is a circle: CA algorithm 1, the mean at most
    half as long as the mean length, and 90% of the squared lengths in a plane."""
    x = np.asarray(x, float)
    norms = [np.sqrt(sum(c * c for c in row)) for row in x]
    if not (min(norms) > 0 and max(norms) / min(norms) < 1.2):
        return False
    mean = np.sqrt(sum(np.mean(column) ** 2 for column in x.T))
    squares = np.sort(np.linalg.eigvalsh(x.T @ x))[::-1]
    return mean <= 0.5 * np.mean(norms) and squares[:2].sum() >= 0.9 * squares.sum()


def imperfections(x, n):
    """Number of grid imperfections (CA algorithm 2); of equally near pair sums the
    first in loop order counts."""
    pairs = pairs_of(n, True)
    count = 0
    for i, j in pairs:
        nearest, match = np.inf, False
        for k, m in pairs:
            distance = np.sqrt(
                sum(
                    ((x[i, a] + x[j, a]) - (x[k, a] + x[m, a])) ** 2
                    for a in range(x.shape[1])
                )
            )
            if (i, j) != (k, m) and distance < nearest:
                nearest, match = distance, (i + j) % n == (k + m) % n
        if not match:
            count += 1
    return count
