"""Overhead of recording a transformer of 227,000 parameters that learns addition modulo
113, on one thread."""

import os
import statistics
import tempfile
import time

import torch

import dynamics

N, DIM = 113, 128


class Transformer(torch.nn.Module):
    """One layer with four heads, over two numbers and a token for the result."""

    def __init__(self):
        super().__init__()
        self.embed, self.position = (
            torch.nn.Embedding(N + 1, DIM),
            torch.nn.Parameter(0.1 * torch.randn(3, DIM)),
        )
        self.attention = torch.nn.MultiheadAttention(DIM, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(DIM, 4 * DIM),
            torch.nn.ReLU(),
            torch.nn.Linear(4 * DIM, DIM),
        )
        self.out = torch.nn.Linear(DIM, N)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out((x + self.mlp(x))[:, -1])


class Recording:
    """Processor time of an update with recording over that without, in %, in pairs of
    ten updates of 512 sequences."""

    params = ([1, 10],)
    param_names = ("every",)
    unit = "%"
    timeout = 300

    def setup(self, every):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = Transformer()
        tokens = torch.cartesian_prod(torch.arange(N), torch.arange(N))
        self.target = tokens.sum(1) % N
        self.tokens = torch.cat([tokens, torch.full((len(tokens), 1), N)], 1)

    def seconds_of_ten(self, optimizer, recording=None):
        begin = time.process_time()
        for _ in range(10):
            batch = torch.randint(len(self.tokens), (512,))
            loss = torch.nn.functional.cross_entropy(
                self.model(self.tokens[batch]), self.target[batch]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if recording is not None:
                recording.step(loss=loss)
        return time.process_time() - begin

    def track_overhead(self, every):
        plain, recorded = (
            torch.optim.AdamW(self.model.parameters(), lr=1e-3) for _ in range(2)
        )
        path = os.path.join(tempfile.mkdtemp(), "bench.nc")
        ratios = []
        with dynamics.record(
            self.model, recorded, path, every=every, embedding="embed.weight"
        ) as recording:
            for _ in range(30):
                without = self.seconds_of_ten(plain)
                ratios.append(self.seconds_of_ten(recorded, recording) / without)
        return 100 * (statistics.median(ratios) - 1)
