"""Activation functions of hidden layers, as values.

    ReLU   max(x, 0)
    GELU   x Phi(x), with the distribution function Phi of the normal distribution
    tanh   tanh x

The functions take tensors of torch. `dynamics.kernels.activations` has them on SIMD
lanes, `dynamics.kernels.cuda_activations` on CUDA devices."""

import dataclasses
import math
from collections.abc import Callable

import torch

from dynamics.settings import ActivationName

Derivatives = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""A function, its first and its second derivative."""


@dataclasses.dataclass(frozen=True)
class Activation:
    """An activation function of tensors."""

    name: ActivationName
    function: Callable[[torch.Tensor], torch.Tensor]
    derivatives: Callable[[torch.Tensor], Derivatives]
    """The function with its first and its second derivative."""


def _relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def _relu_derivatives(x: torch.Tensor) -> Derivatives:
    slope = (x > 0).to(x.dtype)
    return x * slope, slope, torch.zeros_like(x)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x)


def _gelu_derivatives(x: torch.Tensor) -> Derivatives:
    share = torch.special.ndtr(x)
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * share, share + x * density, density * (2 - x * x)


def _tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)


def _tanh_derivatives(x: torch.Tensor) -> Derivatives:
    value = torch.tanh(x)
    slope = 1 - value * value
    return value, slope, -2 * value * slope


ACTIVATIONS: dict[ActivationName, Activation] = {
    item.name: item
    for item in (
        Activation("relu", _relu, _relu_derivatives),
        Activation("gelu", _gelu, _gelu_derivatives),
        Activation("tanh", _tanh, _tanh_derivatives),
    )
}
"""Activations by their names in settings."""
