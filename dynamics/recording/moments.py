"""Second moments of the gradients of parameters, from the states of Adam and its
relatives."""

from collections.abc import Iterable
from typing import Any

import torch

from dynamics.settings import SettingsError


def second_moment(
    optimizer: torch.optim.Optimizer,
    group: int,
    parameter: torch.nn.Parameter,
    model: Any = None,
) -> torch.Tensor:
    """Adam's bias-corrected second moment of the gradient of a parameter in a group of
    the optimizer: zeros before the first update."""
    state = optimizer.state.get(parameter)
    if not state:
        return torch.zeros_like(parameter)
    if "exp_avg_sq" not in state:
        raise SettingsError(
            "moments",
            type(optimizer).__name__,
            "an optimizer with second moments, such as Adam",
        )
    moment = state.get("max_exp_avg_sq", state["exp_avg_sq"])
    return moment / (
        1 - optimizer.param_groups[group]["betas"][1] ** float(state["step"])
    )


def check_moments(optimizers: Iterable[torch.optim.Optimizer]) -> dict[str, float]:
    """The values of beta1 and eps, which must be the same for all parameters. Raises
    SettingsError."""
    common: dict[str, float] = {}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if "betas" not in group or "eps" not in group:
                name = type(optimizer).__name__
                raise SettingsError(
                    "moments", name, "an optimizer with second moments, such as Adam"
                )
            values = {"beta1": float(group["betas"][0]), "eps": float(group["eps"])}
            if common and values != common:
                raise SettingsError(
                    "moments",
                    f"{common} and {values}",
                    "the same beta1 and eps for all parameters",
                )
            common = values
    return common
