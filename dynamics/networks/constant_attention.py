"""The network of CA: one hidden layer over the sum of two token embeddings (constant
attention), for addition modulo N.

With the embedding E, hidden layer (W_h, b_h), activation f (ReLU in the paper) and
output layer (W_o, b_o), the logits of a pair of tokens (a, b) are

    o = W_o f(W_h (E_a + E_b) + b_h) + b_o          (CA section 3)

The network is a set of pure functions of a dict of tensors, whose keys are the variable
names of the trajectory. Each tensor may have leading axes, such as run and step, which
the result keeps. So recorded weights can be evaluated, differentiated
(`torch.func.grad`) and mapped (`torch.func.vmap`) directly."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from dynamics import randomness
from dynamics.networks.activation_functions import ACTIVATIONS
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.settings import ModularSettings


class ConstantAttention(NetworkParameters):
    """The constant-attention network of CA for addition modulo N (CA section 3).

    The network holds no weights; its methods take them as a dict, see
    `dynamics.networks.weights`.

    Parameters
    ----------
    settings : ModularSettings
        Sizes of the network, its activation and its task.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from dynamics import ModularSettings
    >>> network = ConstantAttention(ModularSettings(n=5))
    >>> initial = {name: torch.from_numpy(values) for name, values in network.initial(np.arange(3)).items()}
    >>> pairs = torch.tensor([[0, 1], [2, 4]])
    >>> network.logits(initial, pairs).shape  # run, pair, class
    torch.Size([3, 2, 5])
    >>> network.target(pairs)
    tensor([1, 1])
    """

    VARIABLES: ClassVar[dict[str, tuple[str, ...]]] = {
        "embedding": ("token", "axis"),
        "hidden_weight": ("hidden", "axis"),
        "hidden_bias": ("hidden",),
        "output_weight": ("class", "hidden"),
        "output_bias": ("class",),
    }

    def __init__(self, settings: ModularSettings) -> None:
        self.settings = settings
        self.activation = ACTIVATIONS[settings.activation]
        sizes = {
            "token": settings.n,
            "class": settings.n,
            "axis": settings.dim,
            "hidden": settings.hidden,
        }
        super().__init__(self.VARIABLES, sizes)

    def initial(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """Initial weights, (run, ...) float32: E standard normal, both layers uniform
        within ±1/sqrt(fan-in)."""
        initial = {}
        for name in self.variables:
            stream = f"modular/{name}"
            shape = self.shapes[name]
            if name == "embedding":
                samples = randomness.normal_samples(seeds, stream, shape)
            else:
                fan_in = (
                    self.settings.dim
                    if name.startswith("hidden")
                    else self.settings.hidden
                )
                samples = randomness.uniform_samples(seeds, stream, shape) / np.sqrt(
                    fan_in
                )
            initial[name] = samples.astype(np.float32)
        return initial

    def target(self, pairs: torch.Tensor) -> torch.Tensor:
        """The correct class, (i + j) mod N, of pairs (pair, 2) of tokens: (pair,)."""
        return (pairs[:, 0] + pairs[:, 1]) % self.settings.n

    def logits(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Logits of the N classes for pairs (pair, 2) of tokens: (..., pair, class)."""
        tokens = weights["embedding"] @ weights["hidden_weight"].mT
        preactivation = (
            tokens[..., pairs[:, 0], :]
            + tokens[..., pairs[:, 1], :]
            + weights["hidden_bias"][..., None, :]
        )
        active = self.activation.function(preactivation)
        return (
            active @ weights["output_weight"].mT + weights["output_bias"][..., None, :]
        )

    def losses(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of each pair: (..., pair)."""
        log_probability = torch.log_softmax(self.logits(weights, pairs), dim=-1)
        index = self.target(pairs).expand(log_probability.shape[:-1])[..., None]
        return -torch.gather(log_probability, -1, index)[..., 0]

    def loss(
        self, weights: Weights, pairs: torch.Tensor, pair_weights: torch.Tensor
    ) -> torch.Tensor:
        """Mean cross-entropy, (...), over pairs weighted by `pair_weights` (..., pair),
        which sum to 1."""
        return (self.losses(weights, pairs) * pair_weights).sum(-1)
