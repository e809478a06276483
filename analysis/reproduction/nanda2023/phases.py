"""NA: the phases of training, and the measures that change before the network
generalises."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.output.results import dimensionless
from analysis.progress_measures.logit_components import KEY_FRACTION
from analysis.reproduction.verification import (
    Above,
    Agrees,
    Below,
    Estimate,
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Within,
    part,
    reported_number,
    samples,
    sized,
)
from analysis.statistics.intervals import NO_INTERVAL
from analysis.structures.formation_times import halfway_time
from dynamics.settings import TRANSFORMER_PRESETS
from dynamics.trajectory.diverged import not_diverged

SERIES = (
    "restricted_loss",
    "excluded_loss",
    "embedding_gini",
    "map_gini",
    "squared_weights",
)
"""Of the progress measures, those of NA."""
FORMATION, CLEANUP = "circuit formation", "cleanup"


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of a preset."""
    settings = dataclasses.replace(
        TRANSFORMER_PRESETS[params["preset"]], **params.get("settings", {})
    )
    return [
        RequiredRuns(
            settings,
            params["runs"],
            params["epochs"],
            params["every"],
            must=("n", "weight_decay"),
        )
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Times and phases of the networks that have not diverged, and their measures along
    training (run, step)."""
    (need,) = ensembles(params)
    trajectory = runner.ensemble(need)
    trajectory = trajectory.isel(run=not_diverged(trajectory))
    result = progress_measures.measure_progress(
        trajectory, frames=trajectory.sizes["step"]
    )
    kept = [*SERIES, "memorised", "generalised", "begin", "end"]
    found = result[kept].assign_coords(
        step=result["step"].values / result.attrs["unit"]
    )
    for name in ("memorised", "generalised", "begin", "end"):
        found[name] = (found[name] / result.attrs["unit"]).assign_attrs(
            result[name].attrs, units="1"
        )
    for name in ("loss", "accuracy"):
        values = trajectory[name].sel(split="test").transpose("run", "step").values
        found[f"test_{name}"] = (
            ("run", "step"),
            values,
            dimensionless(f"{name} of the test pairs"),
        )
    count = result["key_frequency"].sum("frequency").values
    found["keys"] = (
        "run",
        count,
        dimensionless("number of key frequencies at the end"),
    )
    return found.drop_vars("seed").assign_attrs(preset=params["preset"])


PHASES = Experiment(
    "na.phases",
    "when transformers of NA's recipe memorise and generalise, and their progress measures on the way",
    measure=measure,
    quick=sized(15, preset="small", runs=4, epochs=2000, every=100),
    default=sized(
        30,
        "p = 53 and half of the pairs instead of 113 and 30%, 4,000 epochs instead of 40,000",
        preset="small",
        runs=6,
        epochs=4000,
        every=100,
    ),
    full=sized(1200, preset="nanda", runs=10, epochs=40_000, every=400),
    ensembles=ensembles,
    depends={
        "memorised": progress_measures.MEMORISED,
        "generalised": progress_measures.GENERALISED,
        "keys": KEY_FRACTION,
    },
    command="python -m analysis.progress",
)


# ---------------------------------------------------------------------------- estimates


def _of_preset(evidence: xr.Dataset, preset: str, values: np.ndarray) -> Estimate:
    """The median of values (run,), which is compared with a number of the runs of a
    preset; skipped for another."""
    if evidence.attrs["preset"] != preset:
        return Estimate(
            NO_INTERVAL,
            0,
            note="the number is of another modulus than that of this size",
            skipped=True,
        )
    return samples.estimate_median(values)


def median_time(evidence: xr.Dataset, name: str, preset: str) -> Estimate:
    """Median of the epoch by which a run has memorised or generalised, of those that
    have."""
    return _of_preset(evidence, preset, evidence[name].values)


def phase_end(evidence: xr.Dataset, phase: str, preset: str) -> Estimate:
    """Median of the epoch at which a phase ends."""
    return _of_preset(evidence, preset, evidence["end"].sel(phase=phase).values)


def key_count(evidence: xr.Dataset, preset: str) -> Estimate:
    """Median of the number of key frequencies."""
    return _of_preset(evidence, preset, evidence["keys"].values)


def between_epochs(
    evidence: xr.Dataset, name: str, first: float, last: float
) -> Estimate:
    """Percentage of runs that have memorised or generalised between two epochs."""
    when = evidence[name].values
    late = when[np.isfinite(when)]
    note = f"epochs {late.min():.0f} to {late.max():.0f}" if late.size else "no run has"
    return samples.percentage_or_none(
        int(((first <= when) & (when <= last)).sum()), when.size, "runs", note
    )


def delay_ratio(evidence: xr.Dataset) -> Estimate:
    """Epoch by which a run has generalised divided by that by which it has memorised, a
    geometric mean."""
    return samples.paired_ratio(evidence["generalised"], evidence["memorised"])


def _at_phase(
    evidence: xr.Dataset, name: str, phase: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A measure at the beginning and at the end of a phase, and the epochs it takes,
    each (run,)."""
    when = [evidence[edge].sel(phase=phase).values for edge in ("begin", "end")]
    series = evidence[name].transpose("run", "step").values
    at = [
        [
            np.interp(t, evidence["step"].values, y)
            for t, y in zip(epochs, series, strict=True)
        ]
        for epochs in when
    ]
    return np.array(at[0]), np.array(at[1]), when[1] - when[0]


def phase_change(evidence: xr.Dataset, name: str, phase: str = FORMATION) -> Estimate:
    """Change of a measure during a phase, mean over runs that have it."""
    begin, end, _ = _at_phase(evidence, name, phase)
    return samples.paired_difference(end, begin, "runs with the phase")


def phase_ratio(evidence: xr.Dataset, name: str, phase: str = FORMATION) -> Estimate:
    """A measure at the end of a phase divided by that at its beginning, a geometric
    mean over runs that have it."""
    begin, end, _ = _at_phase(evidence, name, phase)
    return samples.paired_ratio(end, begin, "runs with the phase")


def cleanup_pace(evidence: xr.Dataset, name: str, sign: int) -> Estimate:
    """Change of a measure per epoch of cleanup divided by that of circuit formation, a
    geometric mean over runs.

    sign: 1 for a measure that rises, -1 for one that falls; runs in which it does not
    are left out."""
    cleanup, formation = (
        sign * _pace(evidence, name, phase) for phase in (CLEANUP, FORMATION)
    )
    return samples.paired_ratio(cleanup, formation, "runs with both phases")


def _pace(evidence: xr.Dataset, name: str, phase: str) -> np.ndarray:
    """Change of a measure per epoch of a phase, (run,)."""
    begin, end, epochs = _at_phase(evidence, name, phase)
    return np.divide(
        end - begin, epochs, out=np.full(len(epochs), np.nan), where=epochs > 0
    )


def half_lead(evidence: xr.Dataset, name: str, sign: int) -> Estimate:
    """Epochs from half of a measure's change to half of the test loss's fall, both
    after memorisation.

    sign: 1 for a measure that rises, -1 for one that falls. A change is that from
    memorisation to the last frame."""
    half = _half_times(evidence, lambda run: -sign * run[name].values)
    return samples.paired_difference(
        _half_times(evidence, lambda run: run["test_loss"].values), half
    )


def _half_times(
    evidence: xr.Dataset, falling: Callable[[xr.Dataset], np.ndarray]
) -> np.ndarray:
    """When a falling series of a run (step,) is last half-way between memorisation and
    the end, NaN without: (run,)."""
    times = np.full(evidence.sizes["run"], np.nan)
    for run in np.flatnonzero(np.isfinite(evidence["memorised"].values)):
        one = evidence.isel(run=run)
        later = one.isel(
            step=np.flatnonzero(one["step"].values >= float(one["memorised"]))
        )
        values = falling(later)
        if np.isfinite(values).all() and values[-1] < values[0]:
            times[run] = halfway_time(values, later["step"].values)
    return times


# ------------------------------------------------------------------------------- claims


TESTS = {
    PHASES.name: {
        "NA.grokking.delay": [
            part(
                between_epochs,
                Above(50, ours=True),
                "memorise before epoch 300",
                "%",
                name="memorised",
                first=0,
                last=300,
            ),
            part(
                between_epochs,
                Above(50, ours=True),
                "generalise from epoch 800 to 4,000",
                "%",
                name="generalised",
                first=800,
                last=4000,
            ),
            part(
                delay_ratio,
                Above(1, 2, ours=True),
                "epoch of generalisation relative to memorisation",
            ),
        ],
        "NA.record.p53": [
            part(
                median_time,
                Agrees(reported_number("93", 1), 100),
                "memorised",
                "epochs",
                name="memorised",
                preset="small",
            ),
            part(
                median_time,
                Agrees(reported_number("1637", 1), 500),
                "generalised",
                "epochs",
                name="generalised",
                preset="small",
            ),
        ],
        "NA.phases.epochs": tuple(
            part(
                phase_end,
                Agrees(reported_number(printed, 1), margin),
                phase,
                "epochs",
                phase=phase,
                preset="nanda",
            )
            for phase, printed, margin in (
                ("memorisation", "1400", 700),
                (FORMATION, "9400", 3000),
                (CLEANUP, "14000", 4000),
            )
        ),
        "NA.phases.key-frequencies": [
            part(key_count, Agrees(reported_number("5", 1), 2), "", "", preset="nanda")
        ],
        "NA.phases.excluded": [
            part(
                phase_change,
                Above(0, 0.1),
                "excluded loss",
                "nats",
                digits=2,
                name="excluded_loss",
            ),
            part(
                phase_ratio,
                Within(2 / 3, 1.5, ours=True),
                "test loss, ratio",
                digits=2,
                name="test_loss",
            ),
        ],
        "NA.phases.restricted": [
            part(
                phase_change,
                Below(0, 0.1),
                "change in circuit formation",
                "nats",
                digits=2,
                name="restricted_loss",
            ),
            part(
                half_lead,
                Above(0, 100),
                "lead",
                "epochs",
                digits=0,
                name="restricted_loss",
                sign=-1,
            ),
        ],
        "NA.phases.gini": [
            part(
                cleanup_pace,
                Above(1, 0.5),
                "Gini of the embedding",
                digits=2,
                name="embedding_gini",
                sign=1,
            ),
            part(
                cleanup_pace,
                Above(1, 0.5),
                "Gini of the neuron-logit map",
                digits=2,
                name="map_gini",
                sign=1,
            ),
        ],
        "NA.phases.squared-weights": [
            part(
                phase_change,
                Below(0),
                "change in circuit formation",
                digits=0,
                name="squared_weights",
            ),
            part(
                cleanup_pace,
                Above(1, 0.2),
                "pace in cleanup",
                digits=2,
                name="squared_weights",
                sign=-1,
            ),
        ],
        "OWN.grokking-order": [
            part(
                half_lead,
                Above(0),
                "excluded loss",
                "epochs",
                digits=0,
                name="excluded_loss",
                sign=1,
            ),
            part(
                half_lead,
                Below(0),
                "Gini of the embedding",
                "epochs",
                digits=0,
                name="embedding_gini",
                sign=1,
            ),
            part(
                half_lead,
                Below(0),
                "Gini of the neuron-logit map",
                "epochs",
                digits=0,
                name="map_gini",
                sign=1,
            ),
            part(
                half_lead,
                Below(0),
                "squared weights",
                "epochs",
                digits=0,
                name="squared_weights",
                sign=-1,
            ),
        ],
    },
}
