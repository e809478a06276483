"""A plain implementation of the constant-attention network (CA): one torch.nn.Module,
one optimizer, one run.

It is the reference for tests of the ensemble trainer, and its baseline in benchmarks.
"""

from collections.abc import Iterable

import numpy as np
import torch

from dynamics import ModularSettings, SparseSettings, all_pairs, training_pairs
from dynamics.networks.constant_attention import ConstantAttention


class Net(torch.nn.Module):
    def __init__(self, s: ModularSettings) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(s.n, s.dim)
        self.hidden = torch.nn.Linear(s.dim, s.hidden)
        self.output = torch.nn.Linear(s.hidden, s.n)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.hidden(self.embedding(pairs).sum(1))))


def plain_optimizer(
    s: ModularSettings | SparseSettings, parameters: Iterable
) -> torch.optim.Optimizer:
    """The optimizer of torch that settings name, for parameters or groups of them."""
    if s.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=s.lr, weight_decay=s.weight_decay, momentum=s.momentum
        )
    rule = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[s.optimizer]
    return rule(
        parameters, lr=s.lr, weight_decay=s.weight_decay, betas=(s.beta1, s.beta2)
    )


def loss_and_accuracy(
    logits: torch.Tensor, target: torch.Tensor
) -> tuple[float, float]:
    loss = torch.nn.functional.cross_entropy(logits, target)
    return float(loss), float((logits.argmax(1) == target).float().mean())


class Run:
    """A run with the same initial weights and training split as the run of this seed in
    an ensemble."""

    def __init__(self, s: ModularSettings, seed: int) -> None:
        self.n, self.net = s.n, Net(s)
        first = ConstantAttention(s).initial(np.array([seed]))
        with torch.no_grad():
            for parameter, weight in zip(
                self.net.parameters(), first.values(), strict=True
            ):
                parameter.copy_(torch.from_numpy(weight[0]))
        chosen = training_pairs(s.n, s.train_pairs, np.array([seed]))[0]
        pairs = torch.from_numpy(all_pairs(s.n))
        self.splits = {"train": pairs[chosen], "validation": pairs[~chosen]}
        self.targets = {name: split.sum(1) % s.n for name, split in self.splits.items()}
        self.rule = plain_optimizer(s, self.net.parameters())

    def step(self) -> None:
        self.rule.zero_grad()
        torch.nn.functional.cross_entropy(
            self.net(self.splits["train"]), self.targets["train"]
        ).backward()
        self.rule.step()

    @torch.no_grad()
    def scores(self, split: str) -> tuple[float, float]:
        """Loss and accuracy on a split."""
        return loss_and_accuracy(self.net(self.splits[split]), self.targets[split])
