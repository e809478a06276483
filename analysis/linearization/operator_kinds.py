"""The curvature at a frame of a trajectory, of a network's loss or of the force on
particles, as one operator.

    hessian          H, second derivative of the mean training loss
    gauss_newton     mean of J^T (diag p - p p^T) J, with the derivatives J of the logits by
                     the parameters and the probabilities p (Schraudolph 2002)
    preconditioned   P^-1/2 H P^-1/2, with Adam's preconditioner P (`optimizer_limits`)
    force_jacobian   dF/dx of the total force on particles (`force_jacobian`)

The first three are symmetric; the last one is not if particles align."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import xarray as xr

from analysis import linearization
from analysis.linearization.curvature_operators import CurvatureOperator
from analysis.linearization.force_jacobian import force_operator
from dynamics.settings import ParticleSettings, RecordedSettings, SettingsError

if TYPE_CHECKING:
    from dynamics.recording.model_file import ModelFile

Kind = Literal["hessian", "gauss_newton", "preconditioned", "force_jacobian"]
_KINDS = {
    ParticleSettings.system: ("force_jacobian",),
    RecordedSettings.system: ("hessian", "preconditioned"),
}
"""The kinds of a system. The loss of a recorded model is one function, without its
logits."""
_NETWORK_KINDS = ("hessian", "gauss_newton", "preconditioned")


def operator(
    frame: xr.Dataset,
    kind: Kind = "hessian",
    layers: Sequence[str] = (),
    functions: ModelFile | None = None,
) -> CurvatureOperator:
    """The curvature at one frame of a trajectory, as a linear operator.

    Parameters
    ----------
    frame : xr.Dataset
        One run and one step of a trajectory, ``trajectory.isel(run=[0], step=[-1])``: of
        a network of this package with its weights, of a recorded model with its
        parameters, or of particles.
    kind : {"hessian", "gauss_newton", "preconditioned", "force_jacobian"}
        The Hessian of the mean loss over the training data; the Gauss-Newton matrix of
        this loss, for networks of this package; the Hessian with Adam's preconditioner
        and learning rates of layers; or the Jacobian of the total force on particles.
    layers : sequence of str
        Patterns of the names of the parameters whose rows and columns are kept, such as
        ``"*weight"``. Default: all.
    functions : ModelFile, optional
        Functions of a recorded model.

    Returns
    -------
    CurvatureOperator
        Of shape (parameter, parameter), dimensionless. It computes products with
        vectors; `matrix` is the whole matrix, in closed form for the Hessian of the
        networks of both papers and for particles.

    Raises
    ------
    SettingsError
        If the frame is not a single one, the kind is not one of its system, a pattern
        matches no parameter, or a recorded model has no loss.
    TrajectoryError
        If no weights are recorded, or, for "preconditioned", the state of the optimizer
        cannot be computed again.

    Examples
    --------
    >>> from analysis.linearization import estimate_trace, largest_eigenvalue, operator
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> last = short.isel(step=[-1])
    >>> hessian = operator(last)
    >>> hessian.shape, list(hessian.shapes)[:2]
    ((271, 271), ['embedding', 'hidden_weight'])
    >>> output = operator(last, "gauss_newton", layers=["output_*"])
    >>> output.size, bool(largest_eigenvalue(output) < largest_eigenvalue(hessian))
    (165, True)
    """
    for dim in ("run", "step"):
        count = frame.sizes.get(dim)
        if count != 1:
            how = "one run and one step, as of trajectory.isel(run=[0], step=[-1])"
            raise SettingsError("frame", f"{count or 'no'} values of {dim}", how)
    system = frame.attrs["system"]
    kinds = _KINDS.get(system, _NETWORK_KINDS)
    if kind not in kinds:
        allowed = f"{', '.join(kinds)} for the system {system}"
        raise SettingsError("kind", kind, allowed)
    if kind == "force_jacobian":
        whole = force_operator(frame)
    else:  # through the package, so that torch is imported only for networks
        whole = linearization.loss_operators.loss_operator(frame, kind, functions)
    return whole.restricted(layers) if layers else whole
