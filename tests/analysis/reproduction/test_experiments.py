"""All experiments: what they declare, and the evidence and verdicts that each gives at
a tiny size."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claim import judge_number
from analysis.reproduction.evidence import evidence_path, schedule_experiments
from analysis.reproduction.experiment import Size
from analysis.reproduction.registry import CLAIMS, EXPERIMENT_OF_CLAIM, EXPERIMENTS
from tests.analysis.reproduction.conftest import RUNNER, SIZES
from tests.conftest import ROOT

NAMES = list(EXPERIMENTS)
BEGIN_FROM_OTHERS = {"vc.transfer", "vc.vocabularies", "vc.finetuning"}
"""Experiments that also train networks which begin from the ensembles that they
declare."""
TRAIN_LONG = {"zl.attention-rate", "na.phases"}
"""Experiments whose smallest size takes seconds."""


def marked(value, experiment):
    """A pytest parameter; its tests are slow if the experiment trains long."""
    marks = pytest.mark.slow if experiment in TRAIN_LONG else ()
    return pytest.param(value, marks=marks, id=getattr(value, "name", value))


@pytest.fixture(scope="module")
def reread(evidence, tmp_path_factory):
    """A function that returns evidence, by name, written to a file and read again."""
    folder = tmp_path_factory.mktemp("evidence")

    @functools.cache
    def read(name):
        evidence[name].to_netcdf(folder / f"{name}.nc")
        return xr.load_dataset(folder / f"{name}.nc")

    return read


# ------------------------------------------------------------------------- declarations


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=NAMES)
def test_sizes_times_and_ensembles_are_declared(experiment):
    assert experiment.claims
    sizings = [sizing for sizing in map(experiment.at, Size) if sizing]
    assert all(sizing.seconds > 0 for sizing in sizings)
    assert not sizings[-1].reduced
    for sizing in sizings:
        assert all(need.runs > 0 for need in experiment.ensembles(sizing.params))
    other = dataclasses.replace(experiment, depends={**experiment.depends, "more": 1})
    paths = {
        evidence_path(item, SIZES[experiment.name], RUNNER)
        for item in (experiment, other)
    }
    assert len(paths) == 2


def test_evidence_of_the_report_is_of_the_present_numerics():
    runner = dataclasses.replace(RUNNER, evidence=ROOT / "docs" / "evidence")
    steps = schedule_experiments(list(EXPERIMENTS.values()), Size.DEFAULT, runner)
    paths = [step.path for step in steps]
    assert sorted(paths) == sorted(runner.evidence.iterdir())
    assert sum(path.stat().st_size for path in paths) < 5e6
    for path in paths:
        with xr.open_dataset(path) as dataset:
            assert not dataset.attrs["git_commit"].endswith("+")


def test_evidence_of_the_full_size_replaces_the_default_size(tmp_path):
    runner = dataclasses.replace(RUNNER, evidence=tmp_path)
    experiment = next(item for item in EXPERIMENTS.values() if item.full)
    chosen = []
    for _ in range(2):
        (step,) = schedule_experiments([experiment], Size.DEFAULT, runner)
        chosen.append(step.sizing)
        evidence_path(experiment, experiment.full.params, runner).touch()
    assert chosen == [experiment.default, experiment.full]


# ----------------------------------------------------------------------------- evidence


@pytest.mark.parametrize("name", [marked(name, name) for name in NAMES])
def test_evidence_is_small_described_and_unchanged_by_a_file(name, evidence, reread):
    result = evidence[name]
    assert result.nbytes < 1e6
    xr.testing.assert_equal(reread(name), result)
    for values in result.data_vars.values():
        assert values.attrs.get("long_name")
    json.dumps(dict(EXPERIMENTS[name].depends), default=dataclasses.asdict)


@pytest.mark.parametrize(
    "name", [marked(name, name) for name in NAMES if name not in BEGIN_FROM_OTHERS]
)
def test_experiments_declare_their_ensembles(name, evidence):
    assert evidence[name]
    made, declared = evidence.made[name], evidence.declared[name]
    assert made <= declared <= {*evidence.folder.glob("runs/*.nc")}


@pytest.mark.parametrize("name", ["ca.table1", "vc.finetuning"])
def test_evidence_is_reproducible(name, evidence):
    xr.testing.assert_identical(evidence.measure(name), evidence[name])


@pytest.mark.parametrize(
    "claim", [marked(item, EXPERIMENT_OF_CLAIM[item.name].name) for item in CLAIMS]
)
def test_every_claim_has_numbers_on_small_evidence(claim, evidence, reread):
    name = EXPERIMENT_OF_CLAIM[claim.name].name
    result, again = evidence[name], reread(name)
    for number in claim.numbers:
        judged = judge_number(number, result)
        value, low, high = judged.estimate.interval
        np.testing.assert_equal(
            tuple(judge_number(number, again).estimate.interval), (value, low, high)
        )
        assert "nan" not in judged.estimate.note
        if np.isnan(value):
            assert judged.estimate.note or judged.estimate.count == 0
        elif not np.isnan(low):
            assert low <= value <= high
