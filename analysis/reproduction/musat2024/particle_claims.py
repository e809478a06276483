"""CA section 6 and table 2: structures of particles at three alignment constants."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction import estimates
from analysis.reproduction.claim import (
    Claim,
    Number,
    Sign,
    printed_count,
    printed_number,
)
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    experiment_runs,
    frame_values,
    measure_ensembles,
)
from analysis.reproduction.musat2024 import end_states
from analysis.reproduction.musat2024.end_states import DISTANCES, END_STATE
from analysis.structures.nearest_structures import GRID_SEARCH_STARTS
from analysis.structures.printed_tables import TABLE_2 as PRINTED
from dynamics.settings import ParticleSettings

FAS = tuple(PRINTED)
"""Alignment constants of the table."""
SIMULATIONS = "simulations"


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each row."""
    return [experiment_runs(ParticleSettings(fa=fa), params) for fa in FAS]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How the particles end, (fa, run)."""
    quantities = END_STATE | DISTANCES
    evidence = measure_ensembles(
        runner, ensembles(params), quantities, _measure_runs, ("fa", "run")
    )
    return evidence.assign_coords(fa=list(FAS))


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    end = frame_values(trajectory, "embedding", -1)
    return end_states.end_state(trajectory) | end_states.structure_distances(end)


# --------------------------------------------------------------------------- the table


def circle_percentage(evidence: xr.Dataset, fa: float) -> Estimate:
    """Percentage of the simulations that are circles."""
    return estimates.percentage_of_ones(evidence["circle"].sel(fa=fa), SIMULATIONS)


def imperfections(evidence: xr.Dataset, fa: float) -> Estimate:
    """Mean grid imperfections of the simulations that are not circles."""
    row = evidence.sel(fa=fa)
    grids = row["imperfections"].where(row["circle"] == 0)
    return estimates.estimate_mean(grids, f"{SIMULATIONS} that are not circles")


def row_claim(fa: float) -> Claim:
    """A row of the table."""
    row = PRINTED[fa]
    return Claim(
        f"CA.table2.fa{fa:g}",
        f"table 2, f_a = {fa:g}",
        "In Table 2, we present the results of running 100 simulations",
        f"With f_a = {fa:g}, {row.circles} of 100 simulations become circles.",
        (
            Number(
                lambda evidence: circle_percentage(evidence, fa),
                printed_count(row.circles),
                "circles, with settings fitted to table 2",
                "%",
            ),
            Number(
                lambda evidence: imperfections(evidence, fa),
                printed_number(row.imperfections, 100 - row.circles),
                "imperfections of the others",
            ),
        ),
        "No independent evidence: the settings that the paper leaves open (length of a"
        " step, balance of the forces, which variance) were chosen by closeness to"
        " this table (CA.s6.more-circles has other choices).",
        figure="ca-d",
    )


ROWS = tuple(row_claim(fa) for fa in FAS)

# -------------------------------------------------------------------------- structures


def structured_simulations(fa: float) -> Number:
    """How many simulations are nearer to a perfect structure than with renamed
    tokens."""
    return Number(
        lambda evidence: end_states.nearer_than_renamed(
            evidence.sel(fa=fa), SIMULATIONS
        ),
        Sign.POSITIVE,
        "percentage of simulations that are nearer to a perfect circle or grid than"
        f" after their tokens are renamed at random, less 50%; f_a = {fa:g}",
        "points",
    )


STRUCTURES = Claim(
    "CA.s6.structures",
    "section 6",
    "particles self-organize into the same structures as the embeddings",
    "Under the forces alone, the order of particles becomes nearer to that of a circle"
    " or grid than by chance.",
    tuple(map(structured_simulations, (1.0, 0.5, 2.0))),
    "Measured as for networks (CA.s4.structures), with the settings fitted to table 2, so"
    " that it is no independent evidence; fifty points are the most. The"
    " forces pull sums of one class together, so that much of this follows from their"
    " definition. The number does not show that the structures are those of embeddings.",
    summary="forces alone bring particles nearer to circles and grids than chance",
    figure="ca5",
)


TABLE_2 = Experiment(
    "ca.table2",
    "structures of particles after 100 steps with f_a = 0.5, 1 and 2",
    measure,
    quick=Sizing(2, {"runs": 100}),
    default=Sizing(11, {"runs": 1000}),
    ensembles=ensembles,
    depends={"starts": GRID_SEARCH_STARTS},
    version=2,
    command="python -m analysis.paper table2 --runs 1000",
    claims=(*ROWS, STRUCTURES),
)
