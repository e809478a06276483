"""A plain implementation of the constant-attention network (CA): one torch.nn.Module,
one optimizer, one run.

It is the reference for tests of the ensemble trainer, and its baseline in benchmarks.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from dynamics import ModularSettings, SparseSettings, all_pairs, training_pairs
from dynamics.networks.constant_attention import ConstantAttention

MOMENTS = {"exp_avg", "exp_avg_sq", "momentum_buffer"}
"""Names of the moments in torch.optim"""


ACTIVATION_MODULES = {
    "relu": torch.nn.ReLU,
    "gelu": torch.nn.GELU,
    "tanh": torch.nn.Tanh,
}


class Net(torch.nn.Module):
    def __init__(self, s: ModularSettings) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(s.n, s.dim)
        self.hidden = torch.nn.Linear(s.dim, s.hidden)
        self.activation = ACTIVATION_MODULES[s.activation]()
        self.output = torch.nn.Linear(s.hidden, s.n)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        before = self.hidden(self.embedding(pairs).sum(1))
        return self.output(self.activation(before))


def plain_optimizer(
    s: ModularSettings | SparseSettings, parameters: Iterable
) -> torch.optim.Optimizer:
    """The optimizer of torch that settings name, for parameters or groups of them."""
    if s.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=s.lr, weight_decay=s.weight_decay, momentum=s.momentum
        )
    rule = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[s.optimizer]
    betas = (s.beta1, s.beta2)
    return rule(
        parameters, lr=s.lr, weight_decay=s.weight_decay, betas=betas, eps=s.eps
    )


def loss_and_accuracy(
    logits: torch.Tensor, target: torch.Tensor
) -> tuple[float, float]:
    loss = torch.nn.functional.cross_entropy(logits, target)
    return float(loss), float((logits.argmax(1) == target).float().mean())


class PlainRun:
    """What plain runs share: their state is set from an ensemble's, and compared with
    it. They have `rule`, an optimizer, and `parameters_by_name`, their parameters in
    the order of the ensemble's network."""

    rule: torch.optim.Optimizer
    transposed: tuple[str, ...] = ()
    """Variables whose parameters have their axes in the other order"""

    def parameters_by_name(self) -> dict[str, torch.Tensor]:
        raise NotImplementedError

    def load(self, network, arrays: Mapping[str, np.ndarray], row: int) -> None:
        """Take weights, moments and their number of updates from a row of the restart
        state of an ensemble."""
        parameters = self.parameters_by_name()
        updates = int(arrays["updates"][row])

        def parts(name: str) -> dict[str, torch.Tensor]:
            flat = torch.from_numpy(arrays[name][[row]])
            return {
                key: values[0].T if key in self.transposed else values[0]
                for key, values in network.unflatten(flat).items()
            }

        for name, values in parts("weights").items():
            parameters[name].data = values.to(parameters[name].dtype).clone()
        self.rule.state.clear()
        if not updates:
            return
        for moment in MOMENTS.intersection(arrays):
            for name, values in parts(moment).items():
                parameter = parameters[name]
                state = self.rule.state[parameter]
                state[moment] = values.to(parameter.dtype).clone()
                state["step"] = torch.tensor(float(updates))

    def _rows(self, network, values: Mapping[str, torch.Tensor]) -> np.ndarray:
        """Values by variable, as a row (1, parameter)."""
        flat = [
            (values[name].T if name in self.transposed else values[name]).reshape(-1)
            for name in network.variables
        ]
        return torch.cat(flat).detach().numpy()[None]

    def rows(self, network) -> np.ndarray:
        """The weights as a row (1, parameter)."""
        return self._rows(network, self.parameters_by_name())

    def gradient(self, network) -> np.ndarray:
        """The gradient of the last update as a row (1, parameter)."""
        gradients = {
            name: parameter.grad
            for name, parameter in self.parameters_by_name().items()
        }
        return self._rows(network, gradients)

    def moments(self, network) -> dict[str, np.ndarray]:
        """The moments as rows (1, parameter), by their names in torch.optim."""
        parameters = self.parameters_by_name()
        first = self.rule.state[next(iter(parameters.values()))]
        return {
            moment: self._rows(
                network,
                {
                    name: self.rule.state[item][moment]
                    for name, item in parameters.items()
                },
            )
            for moment in MOMENTS
            if isinstance(first.get(moment), torch.Tensor)
        }


class Run(PlainRun):
    """A run with the same initial weights and training split as the run of this seed in
    an ensemble. listed: the training pairs that a file gives."""

    def __init__(
        self,
        s: ModularSettings,
        seed: int,
        listed: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        self.n, self.net = s.n, Net(s)
        self.has_threshold = s.activation == "relu"
        first = ConstantAttention(s).initial(np.array([seed]))
        with torch.no_grad():
            for parameter, weight in zip(
                self.net.parameters(), first.values(), strict=True
            ):
                parameter.copy_(torch.from_numpy(weight[0]))
        pairs = torch.from_numpy(all_pairs(s.n))
        if listed is None:
            split = seed if s.split_seed is None else s.split_seed
            chosen = training_pairs(s.n, s.train_pairs, np.array([split]))[0]
        else:
            unordered = {tuple(sorted(pair)) for pair in listed}
            chosen = np.array([tuple(pair) in unordered for pair in pairs.tolist()])
        self.splits = {"train": pairs[chosen], "validation": pairs[~chosen]}
        self.targets = {name: split.sum(1) % s.n for name, split in self.splits.items()}
        parameters: list = list(self.net.parameters())
        if s.embedding_weight_decay is not None:
            embedding, *others = parameters
            first = {"params": [embedding], "weight_decay": s.embedding_weight_decay}
            parameters = [first, {"params": others}]
        self.rule = plain_optimizer(s, parameters)

    def parameters_by_name(self) -> dict[str, torch.Tensor]:
        parameters = self.net.parameters()
        return dict(zip(ConstantAttention.VARIABLES, parameters, strict=True))

    def update(self, step: int) -> float:
        """Make the update of a step. Returns the least distance of a hidden unit from
        the threshold of ReLU; other activations have none, from which the distance is
        infinite."""
        with torch.no_grad():
            sums = self.net.embedding(self.splits["train"]).sum(1)
            distance = float(self.net.hidden(sums).abs().min())
        self.step()
        return distance if self.has_threshold else float("inf")

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
