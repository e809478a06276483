"""The loss on planes through the parameters of a run.

The plane of the trajectory is spanned by the two leading principal components of the
frames' parameters around the last frame (Li, Xu, Taylor, Studer and Goldstein 2018,
arXiv 1712.09913). Random directions are scaled, filter by filter, to the norm of the
weights (same source); a filter is an entry along the first axis of a weight, and biases
are not changed."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
import xarray as xr

from analysis.linearization.frame_results import model_attributes
from analysis.linearization.training_loss import training_model
from analysis.loss_geometry.frame_measures import few_threads
from analysis.output.results import labelled, results_until_interrupted
from analysis.output.tables import Column
from analysis.statistics.division import ratio
from dynamics.networks.derivatives import FlatLoss, mapped
from dynamics.progress import progress_bar
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel
from dynamics.settings import SettingsError, check_choice, check_integer
from dynamics.trajectory.diverged import valid_frames

PlaneName = Literal["trajectory", "frames", "random"]
MARGIN = 0.3
"""Part of the extent of the projected frames that is added on each side."""
CHUNK = 2**24
"""Numbers in the parameters of the points whose losses are computed at once."""


class Plane(NamedTuple):
    """A plane in the space of the parameters."""

    origin: torch.Tensor  # (parameter,)
    directions: torch.Tensor  # (2, parameter)
    explained: np.ndarray
    """Fraction of the variance of the frames around the origin in each direction, (2,);
    NaN for random directions."""

    def coordinates(self, rows: torch.Tensor) -> torch.Tensor:
        """Coordinates (row, 2) of the projections of parameters (row, parameter)."""
        return torch.linalg.lstsq(self.directions.T, (rows - self.origin).T)[0].T

    def parameters(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Parameters (row, parameter) at coordinates (row, 2)."""
        return self.origin + coordinates @ self.directions


def trajectory_plane(rows: torch.Tensor) -> Plane:
    """The plane through the last of the frames (frame, parameter) along the two leading
    principal components of the others around it."""
    _, sizes, vectors = torch.linalg.svd(rows - rows[-1], full_matrices=False)
    powers = np.square(sizes.double().numpy())
    explained = ratio(powers[:2], powers.sum())
    return Plane(rows[-1], vectors[:2], explained)


def frames_plane(rows: torch.Tensor) -> Plane:
    """The plane through three frames (3, parameter), with orthonormal directions from
    the first to the second, and towards the third. Raises SettingsError."""
    basis, sides = torch.linalg.qr((rows[1:] - rows[0]).T)
    if sides.diagonal().abs().min() <= 1e-9 * sides.abs().max():
        raise SettingsError("at", "frames on a line", "three frames that span a plane")
    directions = (basis * sides.diagonal().sign()).T
    others = rows - rows[0]
    powers = (others @ directions.T).square().sum(0) / others.square().sum()
    return Plane(rows[0], directions, powers.double().numpy())


def random_plane(model: RecordedModel, row: torch.Tensor, seed: int) -> Plane:
    """The plane through parameters (parameter,) along two filter-normalised random
    directions. Raises SettingsError if no parameter has filters."""
    generator = torch.Generator().manual_seed(seed)
    directions = []
    for _ in range(2):
        noise = torch.randn(len(row), generator=generator, dtype=torch.float64)
        pieces = []
        for weights, piece in zip(
            model.unflatten(row).values(),
            model.unflatten(noise.to(row)).values(),
            strict=True,
        ):
            if weights.ndim < 2:
                pieces.append(torch.zeros(weights.numel()).to(row))
                continue
            filters = piece.flatten(1)
            norms = weights.flatten(1).norm(dim=1, keepdim=True)
            lengths = filters.norm(dim=1, keepdim=True)
            pieces.append((filters * norms / lengths).flatten())
        directions.append(torch.cat(pieces))
        if not directions[-1].any():
            raise SettingsError(
                "plane",
                "random, and no parameter of two or more axes that is not zero",
                "trajectory or frames",
            )
    return Plane(row, torch.stack(directions), np.full(2, np.nan))


def losses_at(losses: Sequence[FlatLoss], rows: torch.Tensor) -> np.ndarray:
    """The mean loss over the batches at parameters (row, parameter): (row,) float64."""
    chunk = max(1, CHUNK // rows.shape[1])
    values = [mapped(loss, loss, (0,), chunk)(rows) for loss in losses]
    return torch.stack(values).mean(dim=0).double().numpy()


def loss_landscape(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    plane: PlaneName = "trajectory",
    run: int = 0,
    points: int = 31,
    seed: int = 0,
    functions: ModelFile | None = None,
    log: Callable[[str], Any] | None = None,
) -> xr.Dataset:
    """The training loss of a run on a plane through its parameters.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Indices along `step`; frames after the run has diverged are left out. Three for
        the plane "frames"; the last one is the origin of the plane "random".
    plane : {"trajectory", "frames", "random"}
        The plane along the two leading principal components of the frames, through
        three frames, or along random directions scaled to the weights.
    run : int
        Index of the run.
    points : int
        Number of points along each direction.
    seed : int
        Of the random directions.
    functions : ModelFile, optional
        Functions of a recorded model.
    log : callable, optional
        Called with a line of text about the cost.

    Returns
    -------
    xr.Dataset
        `loss` (v, u) on a grid, with the coordinates `u` and `v` along both directions;
        by frame (step): `frame_u` and `frame_v` of its projection, its `distance` from
        the plane, its own `frame_loss`, and the loss of its projection
        `projected_loss`; `explained` (direction), the fraction of the variance of the
        frames around the origin. All in units of the parameters, or dimensionless; in
        random directions 1 is the norm of the weights. SIGINT leaves NaN in the rows
        of the grid that are left, whose number is the attribute `rows_left`.

    Raises
    ------
    SettingsError
        If the number of frames does not define the plane.
    TrajectoryError
        If no weights are recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), steps=20, every=1, progress=False)
    >>> result = loss_landscape(short, range(21), points=5)
    >>> result["loss"].dims, float(result["explained"].sum()) > 0.9
    (('v', 'u'), True)
    """
    check_choice("plane", plane, get_args(PlaneName))
    check_integer("points", points, 2, 2001)
    model = training_model(trajectory, run, functions)
    if model.size < 2:
        raise SettingsError("model", "one parameter", "two or more, for a plane")
    valid = valid_frames(trajectory, list(frames)).values[run]
    frames = [frame for frame, is_valid in zip(frames, valid, strict=True) if is_valid]
    least = {"trajectory": 3, "frames": 3, "random": 1}[plane]
    if len(frames) < least or (plane == "frames" and len(frames) > 3):
        allowed = {"trajectory": "three or more", "frames": "three", "random": "one"}
        raise SettingsError("frames", len(frames), f"{allowed[plane]} for this plane")
    rows = torch.stack([model.row(0, frame) for frame in frames])
    losses = model.losses(0, frames[-1])
    if plane == "random":
        surface = random_plane(model, rows[-1], seed)
    else:
        surface = (trajectory_plane if plane == "trajectory" else frames_plane)(rows)
    places = surface.coordinates(rows)
    low, high = places.amin(0), places.amax(0)
    margin = torch.clamp(MARGIN * (high - low), min=1e-6 * float(rows.norm()))
    low, high = low - margin, high + margin
    if plane == "random":
        low, high = -torch.ones(2), torch.ones(2)
    u, v = (
        torch.linspace(float(a), float(b), points, dtype=rows.dtype)
        for a, b in zip(low, high, strict=True)
    )
    grid = torch.cartesian_prod(v, u).flip(1).split(points)
    projected = surface.parameters(places)
    with few_threads(model, points), torch.no_grad():
        frame_losses = [
            losses_at(model.losses(0, frame), row[None])[0]
            for frame, row in zip(frames, rows, strict=True)
        ]
        projected_loss = losses_at(losses, projected)
        if log is not None:
            log(f"cost        {points} x {points} losses of {len(rows[0])} parameters")
        measured = results_until_interrupted(
            lambda row: losses_at(losses, surface.parameters(row)),
            progress_bar(grid, unit="row"),
        )
    loss = np.full((points, points), np.nan)
    loss[: len(measured)] = measured
    distance = (rows - projected).norm(dim=1).numpy()
    explained = (surface.explained, "fraction of the variance of the frames")
    return xr.Dataset(
        {
            **labelled(("v", "u"), loss=(loss, "training loss on the plane")),
            **labelled("direction", explained=explained),
            **labelled(
                "step",
                frame_u=(places[:, 0].numpy(), "coordinate u of the frame"),
                frame_v=(places[:, 1].numpy(), "coordinate v of the frame"),
                distance=(distance, "distance of the frame from the plane"),
                frame_loss=(np.array(frame_losses), "loss of the frame"),
                projected_loss=(projected_loss, "loss of its projection on the plane"),
            ),
        },
        {"u": u.numpy(), "v": v.numpy(), "step": trajectory["step"].values[frames]},
        {
            **model_attributes(trajectory),
            "plane": plane,
            "seed": int(trajectory["seed"].values[run]),
            "rows_left": points - len(measured),
        },
    )


PLANE_COLUMNS = [
    Column("step", "step"),
    Column("u", "frame_u", digits=3),
    Column("v", "frame_v", digits=3),
    Column("loss", "frame_loss", digits=4),
    Column("loss on the plane", "projected_loss", digits=4),
    Column("distance from the plane", "distance", digits=3),
]
PLANE_LEGEND = """
u, v: coordinates of the frame's projection on the plane, in units of the parameters (for
random directions, of the norm of the weights). The loss is that of the training data of
the run."""
