"""The transformer for binary operations as a plain nn.Module and a plain training loop,
one run at a time."""

import math

import torch
from torch import nn

from tests.plain_torch import ACTIVATION_MODULES


class PlainBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        width = s.heads * s.head_width
        self.query, self.key, self.value = (
            nn.Linear(s.dim, width, bias=False) for _ in range(3)
        )
        self.output = nn.Linear(width, s.dim, bias=False)
        self.activation = ACTIVATION_MODULES[s.activation]()
        self.mlp_input, self.mlp_output = (
            nn.Linear(s.dim, s.width),
            nn.Linear(s.width, s.dim),
        )

    def forward(self, x):
        s = self.s
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, s.heads, s.head_width).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(s.head_width)
        seen = torch.ones(length, length, dtype=torch.bool)
        if s.causal:
            seen = seen.tril()
        softmax = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        attention = (s.attention_rate * softmax + (1 - s.attention_rate)) * seen
        x = x + self.output((attention @ v).transpose(1, 2).reshape(batch, length, -1))
        hidden = self.mlp_input(x)
        return x + self.mlp_output(self.activation(hidden))


class PlainTransformer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.embedding = nn.Embedding(s.tokens, s.dim)
        self.positions = nn.Parameter(torch.zeros(s.positions, s.dim))
        self.blocks = nn.ModuleList(PlainBlock(s) for _ in range(s.layers))
        self.unembedding = nn.Linear(s.dim, s.elements, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.unembedding(x)[:, -1]

    def load(self, weights):
        """Copy the weights of one run, by the names of the trajectory."""
        with torch.no_grad():
            self.embedding.weight.copy_(weights["embedding"])
            self.positions.copy_(weights["position_embedding"])
            for at, block in enumerate(self.blocks):
                for name in ("query", "key", "value"):
                    getattr(block, name).weight.copy_(
                        weights[f"{name}_weight"][at].flatten(0, 1)
                    )
                block.output.weight.copy_(weights["attention_output"][at].flatten(1))
                for name in ("mlp_input", "mlp_output"):
                    getattr(block, name).weight.copy_(weights[name][at])
                    getattr(block, name).bias.copy_(weights[f"{name}_bias"][at])
            self.unembedding.weight.copy_(weights["unembedding"])
        return self


def plain_tokens(s, pairs):
    """The sequence of each pair (pair, 2): (pair, position)."""
    columns = [pairs[:, 0], pairs[:, 1] + s.elements * s.own_vocabularies]
    if s.equals_token:
        columns.append(torch.full_like(columns[0], s.tokens - 1))
    return torch.stack(columns, dim=1)


def plain_training(model, s, tokens, target, orders):
    """Train on mini-batches: a generator that performs an update for each of the index
    tensors in `orders`."""
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
    if s.optimizer == "sgd":
        optimizer = torch.optim.SGD(
            model.parameters(), s.lr, s.momentum, weight_decay=s.weight_decay
        )
    else:
        optimizer = kinds[s.optimizer](
            model.parameters(), s.lr, (s.beta1, s.beta2), weight_decay=s.weight_decay
        )
    warm_up = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / max(1, s.warmup))
    )
    for order in orders:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[order]).double(), target[order])
        loss.backward()
        optimizer.step()
        warm_up.step()
        yield loss
