"""The network of VC, a transformer of one layer, as pure functions of a dict of tensors
(VC section 2).

E are the token embeddings, P the position embeddings, q is the query and V the value
matrix. VC calls the input weights w_i of the MLP receptors (with biases b_i) and its
output weights u_i assemblers (with bias c). N normalises, f is the activation:

    z_t = N(E(x_t) + P(t)),  xi = V sum_t softmax_t(z_t . q / sqrt d) z_t
    zeta = xi + sum_i f(w_i . N(xi) + b_i) u_i + c,  logits = E zeta

There are only tokens x positions normalised embeddings. They are computed once, as a
table, and the attention average of a sequence is a matrix product with that table."""

import math

import numpy as np
import torch

from dynamics import randomness
from dynamics.networks.activation_functions import ACTIVATIONS
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.settings import SparseSettings

NORMALISATION_EPSILON = 1e-5
"""Added to the root mean square, as in the authors' code."""


class ClusteringHead(NetworkParameters):
    """The clustering head of VC for sparse modular addition (VC section 2).

    The network holds no weights; its methods take them as a dict, see
    `dynamics.networks.weights`. Tensors may have any leading axes, such as run and
    step.

    Parameters
    ----------
    settings : SparseSettings
        Sizes of the network, its normalisation and activation, and its task.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from dynamics import SparseSettings
    >>> network = ClusteringHead(SparseSettings(length=4, sparsity=2))
    >>> initial = {name: torch.from_numpy(values) for name, values in network.initial(np.arange(3)).items()}
    >>> tokens = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0]])
    >>> network.logits(initial, tokens).shape  # run, sequence, token
    torch.Size([3, 2, 2])
    >>> network.attention(initial, tokens).sum(-1).allclose(torch.ones(3, 2))
    True
    """

    def __init__(self, settings: SparseSettings) -> None:
        s = self.settings = settings
        self.activation = ACTIVATIONS[s.activation]
        variables: dict[str, tuple[str, ...]] = {
            "embedding": ("token", "axis"),
            "position_embedding": ("position", "axis"),
            "query": ("axis",),
            "value": ("axis", "axis_in"),
            "receptor": ("hidden", "axis"),
            "assembler": ("hidden", "axis"),
            **({"transform_bias": ("axis",)} if s.output_bias else {}),
            # scalars follow all vectors, as the SIMD kernels require
            **({"receptor_bias": ("hidden",)} if s.receptor_biases else {}),
        }
        sizes = {
            "token": s.rows,
            "position": s.length,
            "axis": s.dim,
            "axis_in": s.dim,
            "hidden": s.hidden,
        }
        super().__init__(variables, sizes)

    def initial(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """Initial weights, (run, ...) float32: E and P standard normal, the others
        uniform within ±1/sqrt(fan-in).

        Each weight has its own random stream, sampled row after row. So a wider MLP or
        a larger table has the same first rows as a smaller one (assemblers up to a
        scale that depends on the width), and other weights are equal."""
        weights = {}
        for name, shape in self.shapes.items():
            if name.endswith("embedding"):
                samples = randomness.normal_samples(seeds, f"sparse/{name}", shape)
            else:
                fan_in = (
                    self.settings.hidden
                    if name in ("assembler", "transform_bias")
                    else self.settings.dim
                )
                samples = randomness.uniform_samples(
                    seeds, f"sparse/{name}", shape
                ) / math.sqrt(fan_in)
            weights[name] = samples.astype(np.float32)
        return weights

    def normalise(self, x: torch.Tensor) -> torch.Tensor:
        """N(x) along the last axis; 0 at the origin."""
        square = (x * x).sum(-1, keepdim=True)
        length = torch.sqrt(torch.where(square > 0, square, 1.0)) * (
            square > 0
        )  # its gradient at the origin is 0
        rms = self.settings.norm.startswith("rms")
        radius = math.sqrt(self.settings.dim) if rms else 1.0
        if self.settings.norm.endswith("smooth"):
            width = self.settings.smooth_width
            near = (length / width).clamp(max=1.0)
            inside = near * (3 - 2 * near) / width
            outside = 1 / length.clamp(min=width)
            return radius * x * torch.where(length < width, inside, outside)
        if rms:
            return x / (length / radius + NORMALISATION_EPSILON)
        return x / torch.where(length > 0, length, 1.0)

    def table(self, weights: Weights) -> torch.Tensor:
        """z for every position and token: (..., position, token, axis)."""
        return self.normalise(
            weights["embedding"][..., None, :, :]
            + weights["position_embedding"][..., :, None, :]
        )

    def attention(self, weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
        """Attention of sequences (..., sequence, position) to each position: (...,
        sequence, position)."""
        return self._attend(
            self.table(weights), weights["query"], _one_hot(tokens, self.settings.rows)
        )

    def sequence_embedding(
        self, weights: Weights, tokens: torch.Tensor, table: torch.Tensor | None = None
    ) -> torch.Tensor:
        """xi of sequences (..., sequence, position): (..., sequence, axis). table:
        replaces that of the weights."""
        table = self.table(weights) if table is None else table
        chosen = _one_hot(tokens, self.settings.rows)
        attended = self._attend(table, weights["query"], chosen)[..., None] * chosen
        return (attended.flatten(-2) @ table.flatten(-3, -2)) @ weights["value"].mT

    def _attend(
        self, table: torch.Tensor, query: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        """Softmax over positions of the attention scores of one-hot tokens (...,
        sequence, position, token)."""
        scores = (table @ query[..., None, :, None])[..., 0] / math.sqrt(
            self.settings.dim
        )  # (..., position, token)
        return torch.softmax(
            torch.where(chosen, scores[..., None, :, :], 0).sum(-1), dim=-1
        )

    def transform(
        self, weights: Weights, xi: torch.Tensor, normalised: torch.Tensor | None = None
    ) -> torch.Tensor:
        """zeta of sequence embeddings xi, both (..., sequence, axis). normalised:
        replaces N(xi)."""
        preactivation = (
            self.normalise(xi) if normalised is None else normalised
        ) @ weights["receptor"].mT
        if self.settings.receptor_biases:
            preactivation = preactivation + weights["receptor_bias"][..., None, :]
        zeta = xi + self.activation.function(preactivation) @ weights["assembler"]
        return (
            zeta + weights["transform_bias"][..., None, :]
            if self.settings.output_bias
            else zeta
        )

    def logits(self, weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of all rows of the table for sequences (..., sequence, position):
        (..., sequence, token)."""
        return (
            self.transform(weights, self.sequence_embedding(weights, tokens))
            @ weights["embedding"].mT
        )

    def losses(
        self, weights: Weights, tokens: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy of each sequence for its target (..., sequence): (...,
        sequence)."""
        log_probability = torch.log_softmax(self.logits(weights, tokens), dim=-1)
        return -torch.gather(
            log_probability, -1, target.expand(log_probability.shape[:-1])[..., None]
        )[..., 0]


def _one_hot(tokens: torch.Tensor, rows: int) -> torch.Tensor:
    """Tokens (..., position) as (..., position, token) bool.

    The derivative of a product with these is summed in a fixed order on every device,
    unlike that of indexing."""
    return tokens[..., None] == torch.arange(rows, device=tokens.device)
