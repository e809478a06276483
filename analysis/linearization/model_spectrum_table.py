"""Table and summary of the curvature of a recorded model along its run, with 95%
intervals over runs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from analysis.linearization.curvature_table import (
    fraction_heading,
    median_columns,
    median_table,
)
from analysis.output.tables import Column

_MEDIANS = {
    "loss": "loss",
    "sharpness": "sharpness",
    "relative_sharpness": "",
    "lowest": "smallest",
    "trace": "trace",
    "trace_error": "± (standard error)",
    "relative_preconditioned": "preconditioned/limit",
}
"""Headings; the limit has its formula."""
_MEANS = {
    "gradient_fraction": "gradient in leading {}, %",
    "update_fraction": "update in leading {}, %",
}
_OTHERS = ("gradient_size", "limit", "preconditioned_sharpness", "products")
"""Medians that only the CSV contains."""
_WIDTH = 110
"""Largest number of characters of a line of text."""


def tabulate_model(result: xr.Dataset) -> pd.DataFrame:
    """A row for each step of the result of `model_curvature`: medians and means over
    runs."""
    return median_table(result, (*_MEDIANS, *_OTHERS), _MEANS)


def model_columns(result: xr.Dataset) -> list[Column]:
    """The printed columns of `tabulate_model`."""
    headings = {
        name: heading or fraction_heading(result)
        for name, heading in _MEDIANS.items()
        if result[name].notnull().any()
    }
    columns = median_columns(headings)
    for name, heading in _MEANS.items():
        words = heading.format(result.attrs["eigenvalues"])
        columns.append(Column(words, name, 2, "half-width", scale=100))
    return columns


def loss_warning(result: xr.Dataset, trajectory: xr.Dataset, frame: int) -> str:
    """Text that is not empty if the loss at the first frame, an index along step,
    differs from the recorded one."""
    if "loss" not in trajectory:
        return ""
    splits = trajectory["split"].values.tolist()
    split = "train" if "train" in splits else splits[0]
    recorded = float(trajectory["loss"].sel(split=split)[0, frame])
    value = float(result["loss"][0, 0])
    if not abs(value - recorded) > 0.05 * abs(recorded):
        return ""
    at = f"at step {int(trajectory['step'][frame])}"
    return (
        f"The given loss is {value:.3g} {at}, the file has {recorded:.3g} for {split}:"
        " same data, mode and buffers?"
    )


def model_legend(result: xr.Dataset) -> str:
    """Text that explains the columns and gives the residuals of the eigenvalues."""
    attrs = result.attrs
    residual = result["residual"].values
    lines = [
        (
            "Medians with 95% intervals from order statistics; fractions are means ±"
            " 95% interval. Sharpness and smallest:"
        ),
        (
            "largest and smallest eigenvalue of the Hessian of the given loss. Updates are"
            " unstable above the limit, where"
        ),
        (
            "the fraction of it is above 1; lr is the recorded learning rate of each"
            " frame, otherwise that of the beginning."
        ),
        *textwrap.wrap(attrs["limit_note"], _WIDTH, break_on_hyphens=False),
        (
            "Leading: eigenvectors of the largest eigenvalues; for a random direction the"
            " fraction is"
            f" {100 * min(1, attrs['eigenvalues'] / attrs['parameters']):.3g}%."
        ),
    ]
    if result["relative_preconditioned"].notnull().any():
        lines.append(
            "Preconditioned/limit: largest eigenvalue with the optimizer's preconditioner"
            " over its limit."
        )
    elif attrs["lacks_moments"]:
        lines.append(
            "dynamics.record(..., moments=True) records what curvature preconditioned"
            " by Adam needs."
        )
    if np.isfinite(residual).any():
        tolerance = f"tolerance {attrs['tolerance']:.2g}"
        lines.append(
            "Largest residual |Hv - λv| over the largest |λ|:"
            f" {np.nanmax(residual):.2g} ({tolerance})."
        )
    lines += _mode_lines(attrs)
    lost = int((result["loss"].notnull() & result["sharpness"].isnull()).sum())
    if lost:
        lines.append(
            f"Lanczos did not converge in {lost} frames: larger --tolerance or more"
            " --eigenvalues can help."
        )
    if attrs["frames_left"]:
        lines.append(f"Interrupted: {attrs['frames_left']} frames are not measured.")
    return "\n".join(lines)


_STATISTICS = {
    "batch": "normalising layers use the statistics of the batch",
    "recorded": "normalising layers use the recorded running statistics",
    "other": (
        "normalising layers use running statistics that are not those of the frame,"
        " which dynamics.record(..., weights=True) records"
    ),
}


def _mode_lines(attrs: Mapping[str, Any]) -> list[str]:
    """The mode of the modules that the loss called, and by what they normalised."""
    if not attrs["mode"]:
        return []
    statistics = [
        text for name, text in _STATISTICS.items() if name in attrs["normalisation"]
    ]
    return ["; ".join([f"Mode of the model: {attrs['mode']}", *statistics]) + "."]
