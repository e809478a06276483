"""A small torch model whose embeddings of two tokens are added and normalised."""

import torch

from dynamics import ModelFile


class Direction(torch.nn.Module):
    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True)


class NormalisedSums(torch.nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embed = torch.nn.Embedding(tokens, 2)
        self.norm = Direction()
        self.out = torch.nn.Linear(2, tokens)

    def forward(self, pairs):
        return self.out(self.norm(self.embed(pairs).sum(1)))


def model_file(tokens):
    """The functions of the model, which is trained on all pairs of tokens."""
    pairs = torch.combinations(torch.arange(tokens), with_replacement=True)
    return ModelFile(
        module=lambda config: NormalisedSums(tokens),
        embedding=lambda parameters: parameters["embed.weight"],
        training_pairs=lambda: pairs,
        modulus=tokens,
    )
