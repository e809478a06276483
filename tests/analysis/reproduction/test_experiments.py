"""All experiments: what they declare, and the evidence and verdicts that each gives at
a tiny size."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import xarray as xr
from analysis.reproduction.rule import Verdict, judge_estimate

from analysis.reproduction.estimates import Estimate
from analysis.reproduction.evidence import (
    evidence_path,
    schedule_experiments,
)
from analysis.reproduction.experiment import Size
from analysis.reproduction.figures.register import SPARSE_RUNS, sparse_runs
from analysis.reproduction.odonnat2024 import (
    ablation_claims,
    circuit_claims,
    finetuning_claims,
    sparsity_claims,
    transfer_claims,
)
from analysis.reproduction.registry import CLAIMS, EXPERIMENTS
from tests.analysis.reproduction.conftest import RUNNER, SIZES
from tests.conftest import ROOT

NAMES = list(EXPERIMENTS)
ADDED_LATER = {
    "ca.regions",
    "ch.fixed-points",
    "vc.norms",
    "vc.saddles",
    "zl.attention-rate",
    "na.phases",
    "na.weight-decay-main",
    "own.fate-epochs",
}
"""Experiments that were added, or done at their full size, when the others had been
measured, all at one commit."""
BEGIN_FROM_OTHERS = {"vc.vocabularies", "vc.finetuning"}
"""Experiments that also train networks which begin from the ensembles that they
declare."""

TRAIN_LONG = {"zl.attention-rate", "na.small", "na.phases"}
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


def test_every_experiment_has_a_claim_and_a_test_size():
    assert (
        set(NAMES)
        == {claim.experiment for claim in CLAIMS if claim.experiment}
        == set(SIZES)
    )
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=NAMES)
def test_sizes_times_and_ensembles_are_declared(experiment):
    sizings = [sizing for sizing in map(experiment.at, Size) if sizing]
    assert sizings[-2:] == [experiment.default, experiment.full or experiment.default]
    assert all(sizing.seconds > 0 for sizing in sizings)
    assert not sizings[-1].reduced
    json.dumps(dict(experiment.depends), default=dataclasses.asdict)
    for sizing in sizings:
        assert all(need.runs > 0 for need in experiment.ensembles(sizing.params))
    other = dataclasses.replace(experiment, depends={**experiment.depends, "more": 1})
    params = SIZES[experiment.name]
    assert evidence_path(experiment, params, RUNNER) != evidence_path(
        other, params, RUNNER
    )


def test_evidence_of_the_reports_is_of_the_present_numerics_and_of_one_commit():
    runner = dataclasses.replace(RUNNER, evidence=ROOT / "docs" / "evidence")
    steps = schedule_experiments(list(EXPERIMENTS.values()), Size.DEFAULT, runner)
    paths = [step.path for step in steps]
    assert sorted(paths) == sorted(runner.evidence.iterdir())
    assert sum(path.stat().st_size for path in paths) < 5e6
    commits = {}
    for name, path in zip(NAMES, paths, strict=True):
        with xr.open_dataset(path) as dataset:
            commits[name] = dataset.attrs["git_commit"]
    assert not any(commit.endswith("+") for commit in commits.values())
    first = [commit for name, commit in commits.items() if name not in ADDED_LATER]
    assert len(set(first)) == 1


def test_evidence_of_the_full_size_replaces_the_default_size(tmp_path):
    runner = dataclasses.replace(RUNNER, evidence=tmp_path)
    decay = EXPERIMENTS["na.weight-decay-main"]
    chosen = []
    for _ in range(2):
        (step,) = schedule_experiments([decay], Size.DEFAULT, runner)
        chosen.append(step.sizing)
        evidence_path(decay, decay.full.params, runner).touch()
    assert chosen == [decay.default, decay.full]
    assert schedule_experiments([decay], Size.QUICK, runner) == []


def test_evidence_of_the_ablation_depends_on_the_values_of_its_panels(monkeypatch):
    before = evidence_path(ablation_claims.ABLATION, SIZES["vc.ablation"], RUNNER)
    monkeypatch.setattr(
        "analysis.transitions.ablations.swept_values", lambda *_: [16, 32]
    )
    assert (
        evidence_path(ablation_claims.ABLATION, SIZES["vc.ablation"], RUNNER) != before
    )


def test_ensembles_are_shared_with_commands_and_figures():
    source = transfer_claims.VOCABULARIES.ensembles(
        transfer_claims.VOCABULARIES.default.params
    )
    assert [item.settings.vocab for item in source] == list(range(2, 11))
    assert {(item.runs, item.epochs, item.every) for item in source} == {
        (250, 2000, 1000)
    }
    assert list(finetuning_claims.FINETUNING.ensembles({"runs": 250})) == source[:1]
    assert RUNNER.path(
        circuit_claims.default_networks({"runs": 100})[0]
    ) == RUNNER.path(SPARSE_RUNS)
    needs = sparsity_claims.ensembles(
        sparsity_claims.SPARSITY.default.params | {"enough": 20}
    )
    shared = [sparse_runs(3), *(sparse_runs(dim, every=0) for dim in (4, 8, 16, 32))]
    assert [RUNNER.path(need) for need in needs[1:]] == [
        RUNNER.path(item) for item in shared
    ]


# ----------------------------------------------------------------------------- evidence


@pytest.mark.parametrize("name", [marked(name, name) for name in NAMES])
def test_evidence_is_small_described_and_unchanged_by_a_file(name, evidence, reread):
    result = evidence[name]
    assert result.nbytes < 1e6
    xr.testing.assert_equal(reread(name), result)
    attributes = (
        ["long_name", "units"] if name.startswith(("ca", "own")) else ["long_name"]
    )
    for values in result.data_vars.values() if name != "ca.table2" else ():
        assert all(values.attrs.get(attribute) for attribute in attributes)


@pytest.mark.parametrize(
    "name", [marked(name, name) for name in NAMES if name not in BEGIN_FROM_OTHERS]
)
def test_experiments_declare_their_ensembles(name, evidence):
    assert evidence[name]
    assert (
        evidence.made[name]
        <= evidence.declared[name]
        <= {*evidence.folder.glob("runs/*.nc")}
    )


@pytest.mark.parametrize(
    "name", ["ca.table1", "ca.halt", "vc.finetuning", "vc.relatives"]
)
def test_evidence_is_reproducible(name, evidence):
    xr.testing.assert_identical(evidence.measure(name), evidence[name])


@pytest.mark.parametrize(
    "claim", [marked(item, item.experiment) for item in CLAIMS if item.experiment]
)
def test_every_claim_has_a_verdict_on_small_evidence(claim, evidence, reread):
    result, again = evidence[claim.experiment], reread(claim.experiment)
    if claim.experiment == "vc.remedies":  # a width of 8 stands for the full size
        names = [
            "h = 128" if name == "h = 8" else name for name in result["remedy"].values
        ]
        result, again = (item.assign_coords(remedy=names) for item in (result, again))
    for part in claim.parts:
        estimate = part.measure(result)
        assert isinstance(estimate, Estimate)
        np.testing.assert_equal(
            tuple(part.measure(again).interval), tuple(estimate.interval)
        )
        assert "nan" not in estimate.note
        verdict = judge_estimate(part.criterion, estimate).verdict
        value, low, high = estimate.interval
        if claim.experiment.startswith(("ca", "own")):
            assert verdict != Verdict.SKIPPED
        if np.isnan(value):
            assert estimate.note or estimate.count == 0
            assert verdict in (Verdict.UNTESTABLE, Verdict.SKIPPED)
        elif not np.isnan(low):
            assert low <= value <= high
