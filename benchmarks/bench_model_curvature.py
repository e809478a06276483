"""Products of the Hessian of a recorded transformer of 250,000 parameters with vectors,
and its eigenpairs."""

import statistics
import time

import torch

from analysis.linearization import CurvatureOperator, spectrum_ends
from dynamics.networks.derivatives import differentiable_twice, hessian_vector_product

TOKENS, WIDTH, HEADS, HIDDEN = 113, 128, 4, 600


class Transformer(torch.nn.Module):
    """One layer with causal context of two numbers and an equals sign, as in studies of
    modular addition."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(TOKENS + 1, WIDTH)
        self.position = torch.nn.Parameter(0.1 * torch.randn(3, WIDTH))
        self.attention = torch.nn.MultiheadAttention(
            WIDTH, HEADS, bias=False, batch_first=True
        )
        self.up, self.down = (
            torch.nn.Linear(WIDTH, HIDDEN),
            torch.nn.Linear(HIDDEN, WIDTH),
        )
        self.out = torch.nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.position
        x = x + self.attention(x[:, -1:], x, x, need_weights=False)[0]
        return self.out((x + self.down(torch.relu(self.up(x))))[:, -1])


class ModelHessian:
    """Seconds of one product by each method, and per eigenpair: the five largest
    eigenvalues of a batch of 512."""

    params = ["float64", "float32"]
    param_names = ("precision",)
    timeout = 1800

    def setup(self, precision):
        torch.manual_seed(0)
        model, dtype = Transformer(), getattr(torch, precision)
        pairs = torch.randint(0, TOKENS, (512, 2))
        tokens, labels = (
            torch.cat([pairs, torch.full((512, 1), TOKENS)], 1),
            pairs.sum(1) % TOKENS,
        )
        named = dict(model.named_parameters())
        lengths = [value.numel() for value in named.values()]

        def loss(row):
            pieces = (
                piece.view(value.shape)
                for piece, value in zip(row.split(lengths), named.values(), strict=True)
            )
            logits = torch.func.functional_call(
                model, dict(zip(named, pieces, strict=True)), (tokens,)
            )
            return torch.nn.functional.cross_entropy(logits, labels)

        self.loss, self.row = (
            loss,
            torch.cat([value.detach().flatten() for value in named.values()]).to(dtype),
        )
        self.vector = torch.ones_like(self.row)
        self.restriction = differentiable_twice()
        self.restriction.__enter__()
        self.product = hessian_vector_product(self.loss, self.row)

    def teardown(self, precision):
        self.restriction.__exit__(None, None, None)

    def track_parameters(self, precision):
        return len(self.row)

    def time_gradient(self, precision):
        torch.func.grad(self.loss)(self.row)

    def time_product_with_the_graph_kept(self, precision):
        self.product(self.vector)

    def time_product_of_two_backward_passes(self, precision):
        hessian_vector_product(self.loss, self.row)(self.vector)

    def time_product_forward_over_reverse(self, precision):
        torch.func.jvp(torch.func.grad(self.loss), (self.row,), (self.vector,))

    def track_seconds_per_eigenpair(self, precision):
        def product(vector):
            given = torch.from_numpy(vector).to(self.row)
            return self.product(given).double().numpy()

        times = []
        for _ in range(3):
            begin = time.perf_counter()
            hessian = CurvatureOperator({"row": (len(self.row),)}, product)
            spectrum_ends(hessian, 5, "LA", 1e-6)
            times.append((time.perf_counter() - begin) / 5)
        return statistics.median(times)

    track_seconds_per_eigenpair.unit = "s"
