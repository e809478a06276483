"""Tables of learning coefficients, and warnings about their chains."""

import numpy as np
import pandas as pd
import xarray as xr

from analysis.linearization.curvature_table import finite_values_at, median_interval
from analysis.loss_geometry.learning_coefficient import LARGE_DRIFT
from analysis.output.tables import Column, interval_columns, make_table

CALIBRATION_COLUMNS = [
    Column("step size", "step_size"),
    Column("localisation", "localisation"),
    Column("llc", "llc"),
    Column("± error", "llc_error"),
    Column("effective draws", "effective_draws", digits=0),
    Column("drift", "drift", digits=1),
    Column("diverged chains", "diverged_chains", digits=0),
]
"""Columns of `calibration_table`."""


def coefficient_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each step of the result of `learning_coefficients`: the coefficient of
    one run with its standard error, or the median of several with its interval."""
    rows = []
    for index, step in enumerate(result["step"].values.tolist()):
        values = finite_values_at(result["llc"], index)
        row = {"step": step, "runs": len(values)}
        row |= interval_columns("llc", median_interval(values))
        for name in ("llc_error", "step_bias", "loss", "effective_draws", "step_size"):
            numbers = finite_values_at(result[name], index)
            row[name] = float(np.median(numbers)) if len(numbers) else np.nan
        rows.append(row)
    return make_table(rows)


def coefficient_columns(result: xr.Dataset) -> list[Column]:
    """The printed columns of `coefficient_table`."""
    of = "median llc" if result.sizes["run"] > 1 else "llc"
    return [
        Column("step", "step"),
        Column("runs", "runs"),
        Column(of, "llc", digits=2, interval="bounds"),
        Column("± error", "llc_error", digits=2),
        Column("step bias", "step_bias", digits=2),
        Column("loss", "loss", digits=4),
        Column("effective draws", "effective_draws", digits=0),
    ]


def calibration_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each point of the result of `calibrate_chains`."""
    return result.to_dataframe().reset_index()


def describe_chains(result: xr.Dataset) -> str:
    """How the chains sampled, and warnings about chains that diverged or drift and
    about negative coefficients."""
    attrs = result.attrs
    lines = [
        f"{attrs['chains']} chains of {attrs['draws']} draws after {attrs['burn_in']},"
        f" {attrs['parameters']} parameters, {attrs['examples']} examples,"
        f" beta_n = {attrs['temperature']:.3g}",
        "llc: beta_n times the mean excess of the loss; ± error: standard error of one"
        " run, from the chains; step bias: what the step size adds, from two chains"
        " with half of it",
    ]
    warnings = [
        (
            "a chain diverged: take a smaller --step-size",
            result["diverged_chains"] > 0,
        ),
        (
            "the chains drift: take a longer --burn-in or a larger --localisation",
            abs(result["drift"]) > LARGE_DRIFT,
        ),
        (
            "the step size is too large, by which the coefficient is wrong by more than"
            " its error (step bias): take a smaller --step-size with more --draws",
            abs(result["step_bias"])
            > np.maximum(result["llc_error"], 2 * result["bias_error"]),
        ),
        (
            "the precision does not resolve the change of the loss: take --precision"
            " float64, or subtract a constant from the loss",
            result["resolution"] > 0.02 * abs(result["llc"]),
        ),
        (
            "the coefficient is negative: the frame is no minimum of the loss, or the"
            " step size is too large",
            result["llc"] < -2 * result["llc_error"],
        ),
    ]
    for words, frames in warnings:
        if frames.any():
            count = f"{int(frames.sum())} of {frames.size}"
            lines.append(f"warning: in {count} frames {words}")
    return "\n".join(lines)
