"""docs/analyses/scaling.md: the fits by a search, the structures by loops."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from analysis import structures
from analysis.statistics import Interval, fit_power, fit_transition
from dynamics import ParticleSettings, open_trajectory, read_settings
from tests import naive
from tests.twins.differences import examples, row_has, same

# ------------------------------------------------------------------------------- twins


def log_likelihood(middle, slope, x, counts, totals):
    """Of a logistic curve in ln x."""
    t = slope * (np.log(x) - middle)
    return float(
        (counts * -np.logaddexp(0, -t) + (totals - counts) * -np.logaddexp(0, t)).sum()
    )


def profile(name, value, x, counts, totals, start):
    """The largest likelihood with ln of the midpoint, or with ln of the width, fixed."""
    if name == "midpoint":

        def negative(s):
            return -log_likelihood(value, math.exp(s), x, counts, totals)

        inside = np.linspace(start[1] - 3, start[1] + 3, 61)
    else:

        def negative(m):
            return -log_likelihood(
                m, 2 * math.log(9) / math.exp(value), x, counts, totals
            )

        inside = np.linspace(np.log(x[0]) - 6, np.log(x[-1]) + 6, 61)
    best = min(inside, key=negative)
    gap = inside[1] - inside[0]
    found = optimize.minimize_scalar(
        negative,
        bounds=(best - gap, best + gap),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return -found.fun


def transition(x, counts, totals):
    """Midpoint and width with profile likelihood intervals: ((value, low, high), ...)."""
    centre = np.log(x).mean()
    best = None
    for m, s in itertools.product(np.log(x), (-0.5, 0.5, 1.5, 2.5)):
        found = optimize.minimize(
            lambda p: -log_likelihood(p[0], math.exp(p[1]), x, counts, totals),
            (m, s),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000},
        )
        if best is None or found.fun < best.fun:
            best = found
    assert abs(best.x[0] - centre) < 50
    most = -best.fun
    half = stats.t.ppf(0.975, sum(totals) - 2) ** 2 / 2
    results = []
    for name, at in (
        ("midpoint", best.x[0]),
        ("width", math.log(2 * math.log(9)) - best.x[1]),
    ):
        ends = []
        for sign in (-1, 1):

            def excess(step, at=at, sign=sign, name=name):
                value = profile(name, at + sign * step, x, counts, totals, best.x)
                return most - half - value

            far = 0.05
            while excess(far) < 0 and far < 5:
                far *= 1.5
            ends.append(at + sign * optimize.brentq(excess, 0, far, xtol=1e-9))
        results.append(tuple(math.exp(v) for v in (at, *ends)))
    return results


def power(sizes, estimates):
    """Weighted least squares of logarithms, with its t interval."""
    x, y = np.log(sizes), np.log([e[0] for e in estimates])
    z = stats.norm.ppf(0.975)
    sigma = np.array([(math.log(e[2]) - math.log(e[1])) / (2 * z) for e in estimates])
    w = 1 / sigma**2
    mean_x, mean_y = (w @ x) / w.sum(), (w @ y) / w.sum()
    spread = w @ (x - mean_x) ** 2
    slope = (w @ ((x - mean_x) * (y - mean_y))) / spread
    rest = y - mean_y - slope * (x - mean_x)
    scatter = (w @ rest**2) / (len(x) - 2)
    half = stats.t.ppf(0.975, len(x) - 2) * math.sqrt(max(scatter, 1) / spread)
    return slope, slope - half, slope + half


# ------------------------------------------------------------------------------- tests


@settings(max_examples=examples(3))
@given(
    st.lists(st.integers(1, 19), min_size=3, max_size=6).map(sorted),
    st.integers(20, 60),
    st.floats(0.1, 3),
)
def test_midpoint_and_width(counts, total, first):
    if counts[0] == counts[-1]:
        return
    x = first * 1.5 ** np.arange(len(counts))
    totals = np.full(len(counts), total)
    scaled = np.array(counts) * total // 20
    if scaled[-1] - scaled[0] < total // 2:
        return
    fit = fit_transition(x, scaled, totals)
    for ours, twin in zip(
        (fit.midpoint, fit.width), transition(x, scaled, totals), strict=True
    ):
        same("scaling", ours.value, twin[0], 1e-5)
        same("scaling, bounds", ours[1:], twin[1:], 3e-4)


@settings(max_examples=examples(10))
@given(st.integers(3, 8), st.floats(0.01, 0.5), st.integers(0, 99))
def test_powers(number, spread, seed):
    generator = np.random.default_rng(seed)
    sizes = 7.0 * 1.7 ** np.arange(number)
    values = sizes**-0.2 * np.exp(spread * generator.standard_normal(number))
    widths = np.exp(generator.uniform(0.05, 0.6, number))
    estimates = [(v, v / w, v * w**1.3) for v, w in zip(values, widths, strict=True)]
    ours = fit_power(sizes, [Interval(*e) for e in estimates])
    same("scaling", ours, power(sizes, estimates))


def test_structures_of_the_ends_and_their_times(tmp_path):
    sizes, values = (3, 4, 6), (1.0, 2.0, 4.0)
    designs = structures.plan_scaling(
        ParticleSettings(),
        sizes,
        values,
        runs=(26,),
        lengths=(60,),
        every=7,
        folder=str(tmp_path),
    )
    structures.compute_scaling(designs)
    result = structures.measure_scaling(designs)
    files = {}
    for path in tmp_path.glob("*.nc"):
        trajectory = open_trajectory(path)
        if "embedding" in trajectory:
            s = read_settings(trajectory)
            files[s.n, s.fa] = trajectory, s
    name = next(d for d in result["circle"].dims if d not in ("n", "run"))
    for n, value in itertools.product(sizes, values):
        trajectory, s = files[n, value]
        same("scaling", s.step_size, 0.003 * (17 / n) ** 2)
        x, steps = trajectory["embedding"].values, trajectory["step"].values
        here = result.sel({"n": n, name: value})
        for run in range(26):
            circles = [naive.is_circle(frame) for frame in x[run]]
            one = here.isel(run=run)
            assert one["circle"] == circles[-1]
            count = naive.imperfections(x[run, -1], n)
            same("scaling", one["imperfections"], count / (n * (n + 1) / 2))
            formed = math.nan
            if circles[-1]:
                k = len(circles)
                while k and circles[k - 1]:
                    k -= 1
                formed = steps[k]
            same("scaling", one["formation"], formed)
    for row in structures.transition_rows(result):
        here = result.sel(n=row["n"])
        for column in ("midpoint", "width"):
            row_has("scaling", row, column, here[column].values)
