"""CA section 5.2: whether hidden weights align with pair sums in circles, for several numbers of tokens."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.forces import alignment
from analysis.reproduction.verification import final_frames, samples
from analysis.reproduction.verification.claim import Measurement, claims_of, finding, main_result, part, parts_over
from analysis.reproduction.verification.criteria import Below
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.structures.circles_and_grids import is_circle
from analysis.structures.fourier import dominant_frequency, power_fractions
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged

EPOCHS = (100, 200, 500, 1000, 2000)
EVERY = 100


def angle_ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1 of several numbers of tokens."""
    settings = [ModularSettings(n=n, weight_decay=1.0) for n in params["tokens"]]
    return [RequiredRuns(each, params["runs"], params.get("epochs"), every=EVERY) for each in settings]


def measure_angles(runner: Runner, params: Params) -> xr.Dataset:
    """Angles in degrees between hidden units and the nearest pair sum, in networks that end as circles."""
    return xr.concat([_angles_of_circles(runner.ensemble(need)) for need in angle_ensembles(params)], "circle")


def _angles_of_circles(trajectory: xr.Dataset) -> xr.Dataset:
    """Angles of the weights and of the boundaries, (epoch, direction, circle), beside those of random directions."""
    end, steps = final_frames.frame_values(trajectory, "embedding", -1), trajectory["step"].values
    circles = np.flatnonzero(not_diverged(trajectory) & is_circle(end))
    pairs, n = final_frames.training_pairs_of_runs(trajectory)[circles], end.shape[1]
    angles = []
    for epoch in EPOCHS:
        at = int(np.abs(steps - epoch).argmin())
        embedding, weight, bias = (
            final_frames.frame_values(trajectory, name, at)[circles]
            for name in ("embedding", "hidden_weight", "hidden_bias")
        )
        sums = alignment.embedding_pair_sums(embedding, pairs)
        angles.append([alignment.weight_angles(sums, weight, bias), alignment.boundary_angles(sums, weight, bias)])
    of_units, of_random = np.moveaxis(np.array(angles), 2, 0)
    dims, degrees = ("epoch", "direction", "circle"), "mean angle between {} and the nearest pair sum"
    corners = n // np.gcd(dominant_frequency(power_fractions(end[circles])), n)
    data = {
        "angle": (dims, of_units, {"long_name": degrees.format("hidden units"), "units": "degrees"}),
        "random": (dims, of_random, {"long_name": degrees.format("random directions"), "units": "degrees"}),
        "tokens": ("circle", np.full(len(circles), n), {"long_name": "number of tokens N", "units": "1"}),
        "corners": ("circle", corners, {"long_name": "number of corners of the polygon of tokens", "units": "1"}),
    }
    return xr.Dataset(data, {"epoch": list(EPOCHS), "direction": ["weight", "boundary"]})


WEIGHT_ANGLES = Experiment(
    "ca.weight-angles",
    "angles between hidden units and pair sums in circles of N = 5 to 18 tokens, weight decay 1",
    measure=measure_angles,
    quick=sized(2, "three values of N", tokens=[13, 16, 17], runs=100),
    default=sized(15, tokens=list(range(5, 19)), runs=200),
    full=sized(60, tokens=list(range(5, 19)), runs=1000),
    ensembles=angle_ensembles,
    depends={"epochs": EPOCHS, "every": EVERY, "directions": alignment.DIRECTIONS},
)


def angle_from_random(evidence: xr.Dataset, tokens: int, epoch: int) -> Estimate:
    """Angle between weights and the nearest pair sum less that of random directions, in degrees, in circles of N."""
    here = evidence.isel(circle=evidence["tokens"].values == tokens).sel(epoch=epoch, direction="weight")
    found = samples.paired_difference(here["angle"], here["random"], "circles")
    return found._replace(note=found.note or f"{here['angle'].mean():.1f}° against {here['random'].mean():.1f}°")


def relative_angle(evidence: xr.Dataset, direction: str, odd: bool) -> Estimate:
    """Angle to the nearest pair sum in percent of that of random directions, in polygons of odd or even corners."""
    here = evidence.isel(circle=evidence["corners"].values % 2 == odd).sel(epoch=EPOCHS[-1], direction=direction)
    return samples.estimate_mean(100 * here["angle"] / here["random"], "circles")


def _polygon_parts(direction: str) -> tuple[Measurement, ...]:
    """Angles in polygons of odd and of even corners."""
    return tuple(
        part(relative_angle, Below(100, 10), f"{name} polygons", "%", digits=0, direction=direction, odd=name == "odd")
        for name in ("odd", "even")
    )


CLAIMS = claims_of(
    WEIGHT_ANGLES,
    main_result(
        "CA.s5.2.weights-align",
        "The hidden weights tend to align with the pair sums.",
        "angle between a unit's weights and the nearest pair sum's direction, in circles with weight decay 1: for "
        "N = 17 minus that of random directions; for N from 5 to 18, at the end of training, in percent of it. In odd "
        "polygons the perpendicular of a pair sum points between two others, in even polygons at another one",
        (
            *parts_over("epoch", (100, 500, 2000), angle_from_random, Below(0, 0.2), "epoch {}", "degrees", tokens=17),
            *_polygon_parts("weight"),
        ),
        figure="ca4",
        meaning="the step from weight decay to the alignment force would not be what happens in the network",
    ),
    finding(
        "OWN.boundaries-align",
        "In circles the boundaries of the hidden units, rather than their weights, align with the pair sums.",
        "mean angle between a unit's boundary, without its bias, and the nearest pair sum at the end of training, in "
        "percent of that of random directions; N from 5 to 18",
        _polygon_parts("boundary"),
    ),
)
