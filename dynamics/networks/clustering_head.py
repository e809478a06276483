"""VC's transformer of one layer, as pure functions of a dict of tensors (VC section 2).

With embeddings E of tokens and P of positions, a query q, a value matrix V, receptors w_i with biases b_i, assemblers
u_i, and N(x) the normalisation:

    z_t = N(E(x_t) + P(t)),  xi = V sum_t softmax_t(z_t . q / sqrt d) z_t
    zeta = xi + sum_i GELU(w_i . N(xi) + b_i) u_i + c,  logits = E zeta

There are only as many normalised embeddings as tokens times positions. They are computed once, as a table, and the
mixture of a sequence is one product of its attention, spread over the rows that it has, with that table.
"""

import math

import numpy as np
import torch

from dynamics import randomness
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.settings import SparseSettings

NORMALISATION_EPSILON = 1e-5
"""Added to the root mean square, as the authors' code does."""

MLP_VARIABLES = ("receptor", "assembler", "transform_bias", "receptor_bias")
"""The feed-forward layer, which may have a learning rate of its own."""


class ClusteringHead(NetworkParameters):
    """The network; tensors may have any leading axes, such as run and step."""

    def __init__(self, settings: SparseSettings) -> None:
        s = self.settings = settings
        variables: dict[str, tuple[str, ...]] = {
            "embedding": ("token", "axis"),
            "position_embedding": ("position", "axis"),
            "query": ("axis",),
            "value": ("axis", "axis_in"),
            "receptor": ("hidden", "axis"),
            "assembler": ("hidden", "axis"),
            **({"transform_bias": ("axis",)} if s.output_bias else {}),
            # behind all that are whole points, for the lane kernels
            **({"receptor_bias": ("hidden",)} if s.receptor_biases else {}),
        }
        sizes = {"token": s.rows, "position": s.length, "axis": s.dim, "axis_in": s.dim, "hidden": s.hidden}
        super().__init__(variables, sizes)

    def initial(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """First weights, (run, ...) float32: E and P standard normal, the others uniform within ±1/sqrt(fan-in).

        Each weight has a stream of its own, drawn row after row: a wider layer or a larger table keeps the rows
        that a smaller one has (assemblers up to their scale, which depends on the width), and changes nothing else.
        """
        weights = {}
        for name, shape in self.shapes.items():
            if name.endswith("embedding"):
                drawn = randomness.normal_samples(seeds, f"sparse/{name}", shape)
            else:
                fan_in = self.settings.hidden if name in ("assembler", "transform_bias") else self.settings.dim
                drawn = randomness.uniform_samples(seeds, f"sparse/{name}", shape) / math.sqrt(fan_in)
            weights[name] = drawn.astype(np.float32)
        return weights

    def normalise(self, x: torch.Tensor) -> torch.Tensor:
        """N(x) along the last axis; 0 at the origin."""
        square = (x * x).sum(-1, keepdim=True)
        length = torch.sqrt(torch.where(square > 0, square, 1.0)) * (square > 0)  # whose gradient at 0 is 0
        rms = self.settings.norm.startswith("rms")
        radius = math.sqrt(self.settings.dim) if rms else 1.0
        if self.settings.norm.endswith("smooth"):
            near = length.clamp(max=1.0)
            return radius * x * torch.where(length < 1, near * (3 - 2 * near), 1 / length.clamp(min=1.0))
        if rms:
            return x / (length / radius + NORMALISATION_EPSILON)
        return x / torch.where(length > 0, length, 1.0)

    def table(self, weights: Weights) -> torch.Tensor:
        """z for every position and token: (..., position, token, axis)."""
        return self.normalise(weights["embedding"][..., None, :, :] + weights["position_embedding"][..., :, None, :])

    def attention(self, weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
        """What each position of sequences (..., sequence, position) is given: (..., sequence, position)."""
        return self._attend(self.table(weights), weights["query"], _one_hot(tokens, self.settings.rows))

    def sequence_embedding(
        self, weights: Weights, tokens: torch.Tensor, table: torch.Tensor | None = None
    ) -> torch.Tensor:
        """xi of sequences (..., sequence, position): (..., sequence, axis). A table may stand for the weights' own."""
        table, chosen = self.table(weights) if table is None else table, _one_hot(tokens, self.settings.rows)
        attended = self._attend(table, weights["query"], chosen)[..., None] * chosen
        return (attended.flatten(-2) @ table.flatten(-3, -2)) @ weights["value"].mT

    def _attend(self, table: torch.Tensor, query: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """The softmax over positions of the scores that a table has at one-hot tokens."""
        scores = (table @ query[..., None, :, None])[..., 0] / math.sqrt(self.settings.dim)  # (..., position, token)
        return torch.softmax(torch.where(chosen, scores[..., None, :, :], 0).sum(-1), dim=-1)

    def transform(self, weights: Weights, xi: torch.Tensor, normalised: torch.Tensor | None = None) -> torch.Tensor:
        """zeta of sequence embeddings: (..., sequence, axis) twice. Other vectors may stand for the normalised ones."""
        preactivation = (self.normalise(xi) if normalised is None else normalised) @ weights["receptor"].mT
        if self.settings.receptor_biases:
            preactivation = preactivation + weights["receptor_bias"][..., None, :]
        activate = torch.nn.functional.gelu if self.settings.activation == "gelu" else torch.relu
        zeta = xi + activate(preactivation) @ weights["assembler"]
        return zeta + weights["transform_bias"][..., None, :] if self.settings.output_bias else zeta

    def logits(self, weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of all rows of the table for sequences (..., sequence, position): (..., sequence, token)."""
        return self.transform(weights, self.sequence_embedding(weights, tokens)) @ weights["embedding"].mT

    def losses(self, weights: Weights, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of each sequence, given its target (..., sequence): (..., sequence)."""
        log_share = torch.log_softmax(self.logits(weights, tokens), dim=-1)
        return -torch.gather(log_share, -1, target.expand(log_share.shape[:-1])[..., None])[..., 0]


def _one_hot(tokens: torch.Tensor, rows: int) -> torch.Tensor:
    """Tokens (..., position) as (..., position, token) bool.

    Looking up by products and sums, and not by indices, has a derivative that adds in a fixed order on every device.
    """
    return tokens[..., None] == torch.arange(rows, device=tokens.device)
