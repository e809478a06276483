"""Activations of VC's transformer for tokens, positions and sequences, layer by layer,
and class maps of the plane.

    z(x, t) = N(E(x) + P(t)),  xi = V sum_t softmax_t(z_t . q / sqrt d) z_t,  zeta = transform(xi),  p = softmax(E zeta)

`dynamics.networks.clustering_head` describes the network. VC calls the input weights of
its MLP receptors and the output weights assemblers. All values are dimensionless."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import torch

from analysis.linearization.normalisation import normalised_length
from analysis.panels import colours
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.parameters import Weights

PROBABILITY_LEVELS = (0.5, 0.75, 0.9, 0.99)
"""Thresholds of the largest class probability that separate the shades of a map."""

CLASS_SHADES = (0.15, 0.26, 0.38, 0.5, 0.62)
"""Opacity of the class's colour between those thresholds."""

_BOUNDARY_RADIUS = 1.15
"""Radius at which the boundaries of units are drawn, relative to the circle of
normalised vectors."""


class SparseActivations:
    """Activations of the network at some frames: tensors (frame, point, axis), computed
    on demand."""

    def __init__(
        self,
        network: ClusteringHead,
        weights: Weights,
        tokens: torch.Tensor,
        drawn_tokens: torch.Tensor,
    ) -> None:
        """weights (frame, ...); tokens (sequence, position); drawn_tokens (token,):
        tokens drawn at each position."""
        self.network = network
        self.weights = weights
        self.tokens = tokens
        self.drawn_tokens = drawn_tokens
        self.token_embeddings = weights["embedding"]
        self.position_embeddings = weights["position_embedding"]
        self.receptors = weights["receptor"]
        self.assemblers = weights["assembler"]

    @functools.cached_property
    def table(self) -> torch.Tensor:
        """z of all tokens: (frame, position, token, axis)."""
        return self.network.table(self.weights)

    @property
    def sums(self) -> torch.Tensor:
        """E(x) + P(t), position by position."""
        item = (
            self.position_embeddings[:, :, None]
            + self.token_embeddings[:, None, self.drawn_tokens]
        )
        return item.flatten(1, 2)

    @functools.cached_property
    def normalised_sums(self) -> torch.Tensor:
        return self.table[:, :, self.drawn_tokens].flatten(1, 2)

    @property
    def values(self) -> torch.Tensor:
        """V z."""
        return self.normalised_sums @ self.weights["value"].mT

    @property
    def attention(self) -> torch.Tensor:
        """(frame, sequence, position)"""
        return self.network.attention(self.weights, self.tokens)

    @functools.cached_property
    def sequence_embeddings(self) -> torch.Tensor:
        """xi"""
        return self.network.sequence_embedding(self.weights, self.tokens, self.table)

    @functools.cached_property
    def normalised_sequences(self) -> torch.Tensor:
        return self.network.normalise(self.sequence_embeddings)

    @functools.cached_property
    def transforms(self) -> torch.Tensor:
        """zeta"""
        return self.network.transform(
            self.weights, self.sequence_embeddings, self.normalised_sequences
        )

    @property
    def output_probabilities(self) -> torch.Tensor:
        """(frame, sequence, class)"""
        return torch.softmax(self.transforms @ self.token_embeddings.mT, dim=-1)

    @property
    def boundaries(self) -> torch.Tensor:
        """Points of the circle of normalised vectors where units switch, w . x + b = 0,
        drawn slightly outside it.

        (frame, 2 hidden, 2): first the points counterclockwise from the units'
        receptors, then the clockwise ones; NaN for units that do not switch. Only for
        two axes."""
        x, y = self.receptors[..., 0], self.receptors[..., 1]
        bias = self.weights.get("receptor_bias", torch.zeros_like(x))
        angle = torch.atan2(y, x)
        radius = normalised_length(
            self.network.settings.norm, self.network.settings.dim
        )
        half = torch.arccos(-bias / (self.receptors.norm(dim=-1) * radius))
        angles = torch.cat([angle + half, angle - half], dim=-1)
        return (
            _BOUNDARY_RADIUS
            * radius
            * torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
        )


# --------------------------------------------------------------------------- class maps


def class_level_numbers(logits: torch.Tensor) -> np.ndarray:
    """Most probable class and level interval of its probability, as one number: (...,
    class) -> (...)."""
    top, winner = logits.max(dim=-1)
    probability = 1 / torch.exp(logits - top[..., None]).sum(-1)
    edges = torch.tensor(PROBABILITY_LEVELS, dtype=probability.dtype)
    number = winner * len(CLASS_SHADES) + torch.bucketize(
        probability, edges, right=True
    )
    return number.numpy().astype(map_dtype(logits.shape[-1]))


def map_dtype(classes: int) -> type[np.unsignedinteger]:
    """Type of the numbers of a map."""
    return np.uint8 if classes * len(CLASS_SHADES) <= 256 else np.uint16


def probability_level_names(classes: int) -> tuple[str, ...]:
    """Meaning of each number of a map."""
    between = [
        f"{low:g} to {high:g}" for low, high in itertools.pairwise(PROBABILITY_LEVELS)
    ]
    bands = [
        f"below {PROBABILITY_LEVELS[0]:g}",
        *between,
        f"above {PROBABILITY_LEVELS[-1]:g}",
    ]
    return tuple(
        f"class {one}, probability {band}" for one in range(classes) for band in bands
    )


def probability_palette(classes: int) -> np.ndarray:
    """Colour of each number of a map: that of the class, from pale to full, (number,
    rgb)."""
    rgb = colours.class_colours(classes)
    return np.concatenate(
        [[colours.pale_colours(one, shade) for shade in CLASS_SHADES] for one in rgb]
    )
