"""The force audit and the best pair law of several trajectories, at the same moments of
training.

A moment is a frame of each run that is chosen without a look at the forces, such as the
first one with some accuracy (`analysis.progress_measures.moment_frames`). At each
moment -dL/dE without shift and scaling is compared with a law, by default CA's, and with
its fields (`analysis.forces.force_audit`), and with the best pair law on held-out runs and
frames (`analysis.forces.fitted_laws`), in the whole space and in the planes of the key
frequencies. All values are dimensionless."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.forces.fitted_laws import LAW_FRAMES, LEAST_FRAMES, SPACES, fit_pair_law
from analysis.forces.force_audit import audit_forces, audited_frames
from analysis.forces.law_words import LawWords, law_words
from analysis.output.tables import Column, interval_columns
from analysis.statistics.intervals import drop_non_finite, mean_interval
from dynamics.settings import ParticleSettings
from dynamics.trajectory.schema import read_settings

_AUDITED = ("cosine", "r_squared", "renamed_r_squared")
_FITTED = {"pair_law_r_squared": "pair law", "renamed_pair_law_r_squared": "renamed"}
"""Names of the R² of fitted laws, and the laws of `fit_pair_law`."""


def audit_moments(
    trajectory: xr.Dataset,
    moments: xr.DataArray,
    law: ParticleSettings | None = None,
    keys: np.ndarray | None = None,
) -> xr.Dataset:
    """Audit a trajectory at moments of each run.

    Parameters
    ----------
    trajectory : xarray.Dataset
        As `audit_forces` takes.
    moments : xarray.DataArray
        (run, moment) int, indices of frames; negative for a moment that a run does not
        reach.
    law : ParticleSettings, optional
        Forces, constants and balance, by default CA's at f_a = 1.
    keys : array of bool, shape (run, frequency), optional
        Frequencies in whose planes the comparison is also made.

    Returns
    -------
    xarray.Dataset
        By run, space and moment: `cosine` with the law, `r_squared` of its fields and
        `renamed_r_squared`, and, for several runs of four or more frames,
        `pair_law_r_squared` of the best pair law and `renamed_pair_law_r_squared`, both
        on held-out runs and frames. `recorded_step` (run, moment). The spaces are
        ``whole`` and, with keys, ``planes``: means over the planes of a run. NaN for a
        moment that is not reached. The attributes are the trajectory's, and words for
        the law as in `audit_forces`.

    Raises
    ------
    TrajectoryError
        As `audit_forces`.

    Examples
    --------
    >>> from analysis.forces import audit_moments
    >>> from analysis.progress_measures import moment_frames
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=40, progress=False)
    >>> audit_moments(trajectory, moment_frames(trajectory))["cosine"].dims
    ('run', 'space', 'moment')
    """
    reached = moments >= 0
    at = audited_frames(trajectory, moments.values[reached.values], least=1)
    audit = audit_forces(trajectory, law, at, keys=keys).sel(
        target="gradient", drop=True
    )
    spaces = [audit[list(_AUDITED)].sel(part="normalised", drop=True)]
    if keys is not None:
        spaces.append(
            xr.Dataset(
                {name: audit[f"plane_{name}"].mean("frequency") for name in _AUDITED}
            )
        )
    audits = xr.concat(spaces, "space").assign_coords(space=list(SPACES[: len(spaces)]))
    frames = np.union1d(audited_frames(trajectory, LAW_FRAMES, LEAST_FRAMES), at)
    if trajectory.sizes["run"] > 1 and len(frames) >= LEAST_FRAMES:
        fitted = fit_pair_law(trajectory, law, frames, keys)["r_squared"].sel(
            step=audits["step"]
        )
        audits = audits.assign(
            {name: fitted.sel(law=value, drop=True) for name, value in _FITTED.items()}
        )
    steps = (
        trajectory["step"]
        .drop_attrs()[moments.where(reached, at[-1]).clip(max=at[-1])]
        .drop_vars("step")
    )
    picked = (
        audits.drop_vars("seed")
        .sel(step=steps)
        .drop_vars(["step", "time"])
        .assign(recorded_step=steps)
    )
    return (
        picked.where(reached)
        .transpose("run", "space", "moment", ...)
        .assign_attrs(
            trajectory.attrs | LawWords.of(law or ParticleSettings()).attributes
        )
    )


def differing_settings(trajectories: Sequence[xr.Dataset]) -> dict[str, list[Any]]:
    """The system and the settings that are not the same in all trajectories,
    (trajectory,); NaN if one lacks them."""
    settings = [
        {
            "system": trajectory.attrs["system"],
            **dataclasses.asdict(read_settings(trajectory)),
        }
        for trajectory in trajectories
    ]
    names = dict.fromkeys(name for setting in settings for name in setting)
    values = {
        name: [
            np.nan if setting.get(name) is None else setting[name]
            for setting in settings
        ]
        for name in names
    }
    return {
        name: result
        for name, result in values.items()
        if len({str(value) for value in result}) > 1
    }


def combine_audits(audits: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Join results of `audit_moments` by the names of their files, along the dimension
    `file`.

    The system and the settings that are not the same in all files are coordinates; NaN
    or "" where a system lacks one. The attribute `differing` has their names."""
    runs = [
        audit.assign_coords(run=np.arange(audit.sizes["run"])).drop_attrs()
        for audit in audits.values()
    ]
    differing = differing_settings(list(audits.values()))
    combined = xr.concat(runs, "file", join="outer").assign_coords(file=list(audits))
    combined = combined.sel(
        space=[space for space in SPACES if space in combined["space"]]
    )
    for name, values in differing.items():
        words = any(isinstance(value, str) for value in values)
        combined[name] = (
            "file",
            [str(value) if words else float(value) for value in values],
        )
    law = law_words(next(iter(audits.values())))
    return combined.set_coords(differing).assign_attrs(
        differing=" ".join(differing), **law.attributes
    )


def moment_rows(audits: xr.Dataset) -> list[dict[str, Any]]:
    """Rows of a table, by file, moment and space: means over runs with 95% intervals,
    of `combine_audits`."""
    rows = []
    for file, moment, space in itertools.product(
        *(audits[name].values for name in ("file", "moment", "space"))
    ):
        one = audits.sel(file=file, moment=moment, space=space)
        if one["cosine"].isnull().all():
            continue
        steps = drop_non_finite(one["recorded_step"].values)
        row = {"file": str(file)} | {
            name: one[name].item() for name in audits.attrs["differing"].split()
        }
        row |= {
            "moment": str(moment),
            "step": float(np.median(steps)),
            "runs": len(steps),
            "space": str(space),
        }
        for name in filter(one.data_vars.__contains__, (*_AUDITED, *_FITTED)):
            limits = (-1.0, 1.0) if name == "cosine" else (0.0, 1.0)
            row |= interval_columns(
                name, mean_interval(drop_non_finite(one[name].values), limits=limits)
            )
        rows.append(row)
    return rows


def moment_columns(audits: xr.Dataset) -> list[Column]:
    """The columns of the table: settings that differ, or the files if none does,
    moments, and the measures."""
    differing = audits.attrs["differing"].split() or ["file"]
    columns = [
        Column(name.replace("_", " "), name)
        for name in (*differing, "moment", "step", "runs", "space")
    ]
    words = law_words(audits)
    headings = {
        "cosine": f"cosine {words.short_name}",
        "r_squared": f"R² {words.force_count} {words.field_noun}",
        "renamed_r_squared": "renamed",
        "pair_law_r_squared": "R² pair law",
        "renamed_pair_law_r_squared": "renamed",
    }
    measures = {name: heading for name, heading in headings.items() if name in audits}
    return columns + [
        Column(words, name, digits=2, interval="half-width")
        for name, words in measures.items()
    ]


def moment_legend(audits: xr.Dataset) -> str:
    """The explanation below the table."""
    words = law_words(audits)
    return (
        "Means over the runs that reach a moment, with 95% intervals; 'step' is the"
        " median. The comparison is with -dL/dE\nwithout its shift and scaling"
        f" components: cosine with the {words.name}, R² of its {words.fields}, and R²"
        " of the best\npair law, fitted to other runs and frames; 'renamed': the same"
        " R² with renamed tokens. 'planes': means over the\nplanes of the key"
        " frequencies of each run."
    )
