"""CA section 5.1 and figure 3: regions of the classifier, the attraction to their
centres, and the boundaries between them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.forces import class_regions
from analysis.reproduction.musat2024 import force_audit_claims, networks
from analysis.reproduction.musat2024.classifier_claims import load_classifier
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    frame_values,
)
from analysis.structures.circles_and_grids import is_circle

DECAYS = (0.6, 1.0)
EPOCHS = (*force_audit_claims.FORMING, 2000)
"""Epochs at which structures are forming, and the end."""
QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1 at the end",
    **class_regions.REGION_MEASURES,
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of two rows of table 1."""
    return networks.ensembles(params, DECAYS)


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Regions and boundaries at some epochs, (epoch, weight_decay, run)."""
    epochs = params.get("moments", EPOCHS)

    def at_epoch(epoch: int) -> xr.Dataset:
        def measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
            frame = int(np.abs(trajectory["step"].values - epoch).argmin())
            end = frame_values(trajectory, "embedding", -1)
            of = load_classifier(trajectory, frame)
            return {"circle": is_circle(end)} | class_regions.region_measures(of)

        return networks.measure_by_weight_decay(
            runner, ensembles(params), QUANTITIES, measure_runs
        )

    return xr.concat(map(at_epoch, epochs), xr.Variable("epoch", list(epochs)))


REGIONS = declare_experiment(
    "ca.regions",
    measure,
    ensembles,
    depends={
        "moments": EPOCHS,
        "cells": class_regions.CELLS,
        "rim": class_regions.RIM,
        "quarter": class_regions.QUARTER,
        "fewest": class_regions.FEWEST,
    },
)


def region_percentage(
    evidence: xr.Dataset, weight_decay: float, grids: bool = False, **case: Any
) -> Estimate:
    """Percentage of cases at a weight decay, as `force_audit_claims.neighbour_percentage`
    has it; with `grids`, in networks that are not circles."""
    row = evidence.sel(weight_decay=weight_decay)
    if grids:
        row = row.isel(run=(row["circle"] == 0).all("epoch").values)
    return force_audit_claims.neighbour_percentage(row, **case)
