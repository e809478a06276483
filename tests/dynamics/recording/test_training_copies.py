"""Copies of recorded trainings from their restart states."""

import numpy as np
import pytest
import torch

import dynamics
from dynamics import RecordingError, SettingsError, TrajectoryError

INPUTS = torch.linspace(-1, 1, 16)[:, None]


class Trial:
    """A model with dropout, Adam and shuffled batches, whose training can begin
    anywhere."""

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        layers = torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Dropout(0.1)
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.batches = torch.Generator().manual_seed(seed)
        self.states = {"batches": self.batches}

    def train(self, updates, recording=None):
        for _ in range(updates):
            rows = torch.randperm(16, generator=self.batches)[:8]
            loss = ((self.model(INPUTS[rows]) - INPUTS[rows] ** 2) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if recording:
                recording.step(loss=loss)
        return self.weights()

    def weights(self):
        return [parameter.detach().clone() for parameter in self.model.parameters()]

    def copies(self, step=20, copies=3, displace=0.0, **options):
        return dynamics.training_copies(
            "run.nc",
            self.model,
            self.optimizer,
            step,
            copies,
            displace,
            states=self.states,
            **options,
        )


@pytest.fixture
def recorded():
    """The last weights of a recording with restart states every ten updates."""
    trial = Trial()
    with dynamics.record(
        trial.model,
        trial.optimizer,
        "run.nc",
        states=trial.states,
        restart_every=10,
        seed=5,
    ) as recording:
        return trial.train(40, recording)


def equal(first, second):
    return all(
        torch.equal(one, other) for one, other in zip(first, second, strict=True)
    )


def test_copies_without_displacement_end_with_the_bits_of_the_recording(recorded):
    trial = Trial(seed=1)
    before, generator = trial.weights(), torch.get_rng_state()
    ends = [trial.train(20) for _ in trial.copies()]
    assert len(ends) == 3
    assert all(equal(end, recorded) for end in ends)
    assert equal(trial.weights(), before)  # and what was there before is there again
    assert torch.equal(torch.get_rng_state(), generator)


def test_displacements_are_repeatable_and_have_the_size_asked_for(recorded):
    trial = Trial()
    (origin,) = [trial.weights() for _ in trial.copies(copies=1)]
    starts = [trial.weights() for _ in trial.copies(copies=400, displace=0.1)]
    again = [trial.weights() for _ in trial.copies(copies=2, displace=0.1)]
    assert equal(starts[1], again[1])
    assert not equal(starts[0], starts[1])
    for place, parameter in enumerate(origin):
        moved = torch.stack([start[place] for start in starts]) - parameter
        spread = parameter.std(correction=0)
        assert moved.std().item() == pytest.approx(0.1 * spread.item(), rel=0.1)


def test_reshuffled_copies_differ_by_their_batches_alone(recorded):
    trial = Trial()
    starts, ends = [], []
    for _ in trial.copies(copies=2, reshuffle=True):
        starts.append(trial.weights())
        ends.append(trial.train(20))
    assert equal(*starts)
    assert not equal(*ends)
    again = [trial.train(20) for _ in trial.copies(copies=2, reshuffle=True)]
    assert equal(ends[1], again[1])


def test_numpy_generators_are_reshuffled_too(recorded):
    trial = Trial()
    trial.states["numpy"] = np.random.default_rng(0)
    options = {"states": trial.states, "restart_every": 10}
    with dynamics.record(
        trial.model, trial.optimizer, "numpy.nc", **options
    ) as recording:
        trial.train(10, recording)
    draws = [
        trial.states["numpy"].random()
        for _ in dynamics.training_copies(
            "numpy.nc",
            trial.model,
            trial.optimizer,
            10,
            3,
            states=trial.states,
            reshuffle=True,
        )
    ]
    assert len(set(draws)) == 3


def test_a_loop_that_is_left_restores_the_training(recorded):
    trial = Trial(seed=1)
    before = trial.weights()
    for _ in trial.copies(displace=0.1):
        trial.train(3)
        break
    assert equal(trial.weights(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"step": 15},
            "step: found 15, allowed is a step with a restart state: 10, 20",
        ),
        ({"copies": 0}, "copies: found 0"),
        ({"displace": -0.1}, "displace: found -0.1"),
    ],
)
def test_bad_arguments_are_refused_before_the_loop(recorded, options, message):
    with pytest.raises(SettingsError, match=message):
        Trial().copies(**options)


def test_files_without_restart_states_and_other_models_are_refused(recorded):
    trial = Trial()
    settings = dynamics.ParticleSettings(n=5)
    dynamics.simulate(settings, steps=4, out="particles.nc").close()
    with pytest.raises(TrajectoryError, match="no restart states of a recorded model"):
        dynamics.training_copies("particles.nc", trial.model, trial.optimizer, 2)
    other = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(other.parameters())
    with pytest.raises(TrajectoryError, match="not of this model"):
        list(
            dynamics.training_copies(
                "run.nc", other, optimizer, 20, states=trial.states
            )
        )


def test_a_finished_recording_yields_its_model_in_the_states_of_copies():
    trial = Trial()
    options = {"states": trial.states, "restart_every": 10, "seed": 5}
    options |= {"weights": True, "embedding_gradient": True, "embedding": "0.weight"}
    with dynamics.record(
        trial.model, trial.optimizer, "run.nc", **options
    ) as recording:
        last = trial.train(40, recording)
    generator = torch.get_rng_state()
    ends = []
    for model in recording.branches(20, 2, displace=0.0):
        assert model is trial.model
        ends.append(trial.train(20))
    assert all(equal(end, last) for end in ends)
    assert equal(trial.weights(), last)
    assert torch.equal(torch.get_rng_state(), generator)

    for arguments in ({"displace": 0.1}, {"displace": 0.1, "reshuffle": True}):
        branches = [
            (trial.weights(), trial.train(20))
            for _ in recording.branches(20, 2, **arguments)
        ]
        copies = [
            (trial.weights(), trial.train(20)) for _ in trial.copies(20, 2, **arguments)
        ]
        for branch, copy in zip(branches, copies, strict=True):
            assert equal(branch[0], copy[0])
            assert equal(branch[1], copy[1])
        assert not equal(branches[0][1], branches[1][1])


def test_a_recording_that_is_not_entered_again_has_the_branches_of_its_file(recorded):
    trial = Trial(seed=1)
    recording = dynamics.record(
        trial.model, trial.optimizer, "run.nc", states=trial.states
    )
    ends = [trial.train(20) for _ in recording.branches(20, 1, displace=0.0)]
    assert equal(ends[0], recorded)


def test_branches_of_an_interrupted_recording_begin_at_the_states_that_are_kept():
    trial = Trial()
    recording = dynamics.record(
        trial.model,
        trial.optimizer,
        "run.nc",
        states=trial.states,
        restart_every=10,
        seed=5,
    )
    with pytest.raises(ZeroDivisionError), recording:
        trial.train(25, recording)
        1 / 0  # noqa: B018 - the exception of a loop
    starts = [trial.weights() for _ in recording.branches(20, 1, displace=0.0)]
    again = Trial()
    assert equal(starts[0], again.train(20))


def test_recordings_in_progress_and_missing_files_have_no_branches():
    trial = Trial()
    recording = dynamics.record(
        trial.model, trial.optimizer, "run.nc", states=trial.states, restart_every=10
    )
    with pytest.raises(TrajectoryError, match="run.nc"):
        recording.branches(10)
    with recording:
        trial.train(20, recording)
        before = trial.weights()
        with pytest.raises(RecordingError, match="in progress.*after the with block"):
            recording.branches(10)
        assert equal(trial.weights(), before)
    with pytest.raises(SettingsError, match="step: found 15, allowed is a step with"):
        recording.branches(15)
