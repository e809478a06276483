"""Where an ensemble's parameters live while it trains, and how their gradient and its scores come about.

On a processor gradients come from compiled kernels in which a run is a lane (`dynamics.gradients`), on a CUDA
device from autograd over batched products.
"""

from typing import Protocol

import numpy as np
import torch

from dynamics import gradients
from dynamics.lanes import WIDTH_32
from dynamics.networks import ConstantAttention
from dynamics.tasks import all_pairs

CUDA_WIDTH = 64
"""Runs to which a smaller ensemble is padded on CUDA: batched products may round by the width of the batch."""


class Engine(Protocol):
    """The parameters of some runs, in an order of its own."""

    parameter: torch.Tensor
    """All weights; `parameter.grad` is what `differentiate` fills."""

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        """(run, parameter) in the engine's order."""

    def rows(self, arranged: torch.Tensor) -> torch.Tensor:
        """The inverse of `arrange`, a copy."""

    def differentiate(self) -> None:
        """Fill the gradient of the training loss."""

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Cross-entropy, and whether it is classified correctly, of every pair: both (run, pair).

        Correct means that no other class scores as high.
        """


class LaneEngine:
    """On a processor: sixteen runs side by side. share (run, pair): the weight of each pair in the loss."""

    def __init__(self, network: ConstantAttention, share: np.ndarray) -> None:
        s = network.settings
        self.runs, self.pairs = len(share), gradients.quads(s.n)
        self.layout = gradients.layout(s.n, s.hidden, s.dim)
        padded = np.zeros((self.runs, self.pairs.first.size), np.float32)
        padded[:, : share.shape[1]] = share
        self.share = gradients.to_lanes(padded)
        self.parameter = torch.zeros(len(self.share), self.layout.size * WIDTH_32)
        self.parameter.grad = torch.zeros_like(self.parameter)
        self.weights, self.gradient = self.parameter.numpy(), self.parameter.grad.numpy()

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(gradients.to_lanes(rows.numpy()))

    def rows(self, arranged: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(gradients.from_lanes(arranged.numpy(), self.runs))

    def differentiate(self) -> None:
        gradients.gradients(self.weights, self.layout, self.share, self.pairs, self.gradient)

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        return gradients.scores(self.weights, self.layout, self.pairs, self.runs)


class AutogradEngine:
    """On any device: batched products over a leading run axis. share (run, pair): each pair's weight in the loss.

    width: of the batch, where the runs are some of a larger ensemble.
    """

    def __init__(self, network: ConstantAttention, share: np.ndarray, device: str, width: int = 0) -> None:
        self.network, self.runs = network, len(share)
        width = max(self.runs, CUDA_WIDTH, width)
        padded = np.zeros((width, share.shape[1]), np.float32)
        padded[: self.runs] = share
        self.share = torch.from_numpy(padded).to(device)
        self.pairs = torch.from_numpy(all_pairs(network.settings.n)).to(device)
        self.parameter = torch.zeros(width, sum(network.lengths), device=device)
        self.parameter.grad = torch.zeros_like(self.parameter)
        self.parameter.requires_grad_()

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        padded = torch.zeros_like(self.parameter)
        padded[: self.runs] = rows
        return padded

    def rows(self, arranged: torch.Tensor) -> torch.Tensor:
        return arranged.detach()[: self.runs].clone()

    def differentiate(self) -> None:
        with torch.enable_grad():
            loss = self.network.loss(self.network.unflatten(self.parameter), self.pairs, self.share).sum()
            (gradient,) = torch.autograd.grad(loss, self.parameter)
        assert self.parameter.grad is not None
        self.parameter.grad.copy_(gradient)

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        logits = self.network.logits(self.network.unflatten(self.parameter.detach()), self.pairs)[: self.runs]
        target = self.network.target(self.pairs).expand(logits.shape[:-1])[..., None]
        right = torch.gather(logits, -1, target)
        rival = torch.scatter(logits, -1, target, -torch.inf).amax(-1)
        losses = torch.logsumexp(logits.double(), -1) - right[..., 0]
        return losses.cpu().numpy(), (right[..., 0] > rival).cpu().numpy()
