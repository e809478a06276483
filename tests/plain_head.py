"""A plain implementation of the clustering head (VC): one torch.nn.Module, a
DataLoader, one optimizer, one run.

It is the reference for tests of the ensemble trainer, and its baseline in benchmarks.
"""

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from dynamics import SparseSettings, sample_sequences, sparse_sum
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.training.minibatches import epoch_orders
from tests.plain_torch import (
    ACTIVATION_MODULES,
    PlainRun,
    loss_and_accuracy,
    plain_optimizer,
)


class Net(torch.nn.Module):
    def __init__(self, s: SparseSettings) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(s.rows, s.dim)
        self.position_embedding = torch.nn.Embedding(s.length, s.dim)
        self.query = torch.nn.Parameter(torch.zeros(s.dim))
        self.value = torch.nn.Linear(s.dim, s.dim, bias=False)
        self.receptor = torch.nn.Linear(s.dim, s.hidden)
        self.assembler = torch.nn.Linear(s.hidden, s.dim)
        self.activation = ACTIVATION_MODULES[s.activation]()
        self.dim = s.dim

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        z = self.norm(self.embedding(tokens) + self.position_embedding.weight)
        attention = torch.softmax(z @ self.query / self.dim**0.5, dim=-1)
        xi = self.value((attention[..., None] * z).sum(-2))
        zeta = xi + self.assembler(self.activation(self.receptor(self.norm(xi))))
        return zeta @ self.embedding.weight.T


class Run(PlainRun):
    """A run with the same initial weights and data as the run of this seed in an
    ensemble."""

    transposed = ("assembler",)

    def __init__(self, s: SparseSettings, seed: int) -> None:
        self.s, self.net, self.seed = s, Net(s), seed
        seeds = np.array([seed])
        first = ClusteringHead(s).initial(seeds)
        self.named = {
            "embedding": self.net.embedding.weight,
            "position_embedding": self.net.position_embedding.weight,
            "query": self.net.query,
            "value": self.net.value.weight,
            "receptor": self.net.receptor.weight,
            "receptor_bias": self.net.receptor.bias,
            "transform_bias": self.net.assembler.bias,
            "assembler": self.net.assembler.weight,
        }
        with torch.no_grad():
            for name, parameter in self.named.items():
                values = torch.from_numpy(first[name][0])
                parameter.copy_(values.T if name in self.transposed else values)
        self.splits = {}
        for split in ("train", "test"):
            tokens = sample_sequences(s, seeds, split)[0]
            data = (
                torch.from_numpy(tokens).long(),
                torch.from_numpy(sparse_sum(tokens, s)),
            )
            self.splits[split] = TensorDataset(*data)
        heavy, *light = (
            self.net.assembler.weight,
            self.net.assembler.bias,
            *self.net.receptor.parameters(),
        )
        others = [
            item
            for item in self.net.parameters()
            if all(item is not one for one in (heavy, *light))
        ]
        decay, rate = s.weight_decay + s.assembler_decay, s.lr / s.mlp_lr_discount
        groups = [{"params": others}, {"params": light, "lr": rate}]
        groups.append({"params": [heavy], "lr": rate, "weight_decay": decay})
        self.rule = plain_optimizer(s, groups)

    def parameters_by_name(self) -> dict[str, torch.Tensor]:
        return self.named

    def update(self, step: int) -> float:
        """Apply the update of a step; return an infinite distance from thresholds, which
        GELU and tanh do not have."""
        epoch, batch = divmod(step, self.s.epoch_steps)
        order = epoch_orders(np.array([self.seed]), epoch, self.s.data)[0]
        items = order[batch * self.s.batch :][: self.s.batch]
        self.step(*self.splits["train"][items])
        return float("inf")

    def step(self, tokens: torch.Tensor, target: torch.Tensor) -> None:
        self.rule.zero_grad()
        torch.nn.functional.cross_entropy(self.net(tokens), target).backward()
        self.rule.step()

    def epoch(self) -> None:
        """Train for one epoch, in the order of a DataLoader."""
        loader = DataLoader(self.splits["train"], self.s.batch, shuffle=True)
        for tokens, target in loader:
            self.step(tokens, target)

    @torch.no_grad()
    def scores(self, split: str) -> tuple[float, float]:
        """Loss and accuracy on a split."""
        tokens, target = self.splits[split].tensors
        return loss_and_accuracy(self.net(tokens), target)
