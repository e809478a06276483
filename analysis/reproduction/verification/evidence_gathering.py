"""Gathering evidence: the results of all experiments, read from their files or measured now."""

import time
from collections.abc import Sequence

import xarray as xr

from analysis.reproduction.verification.claim import Claim
from analysis.reproduction.verification.evidence import load_evidence, measure_evidence, measurement_source_hash
from analysis.reproduction.verification.experiment import Runner, Size
from analysis.reproduction.verification.formatting import format_duration
from analysis.reproduction.verification.results import judge_claim
from analysis.reproduction.verification.schedule import ScheduledExperiment
from analysis.reproduction.verification.verdict_table import format_verdict


def gather_evidence(
    steps: Sequence[ScheduledExperiment], runner: Runner, claims: Sequence[Claim], size: Size
) -> dict[str, xr.Dataset]:
    """The evidence of each experiment, by its name. Missing evidence is measured; progress goes to `runner.say`."""
    evidence: dict[str, xr.Dataset] = {}
    left, spent, planned = sum(step.seconds for step in steps), 0.0, 0.0
    for number, step in enumerate(steps, 1):
        found = _load_evidence(step, runner)
        if found is None:
            pace = spent / planned if planned > 60 else 1.0
            print(
                f"\n[{number}/{len(steps)}] {step.experiment.name}: {step.experiment.what}; "
                f"about {format_duration(pace * step.seconds)}, of {format_duration(pace * left)} left",
                file=runner.say, flush=True,
            )  # fmt: skip
            begin = time.perf_counter()
            found = measure_evidence(step.experiment, step.params, runner)
            spent, planned, left = spent + time.perf_counter() - begin, planned + step.seconds, left - step.seconds
            for claim in (each for each in claims if each.experiment == step.experiment.name):
                print(format_verdict(judge_claim(claim, found, size)), file=runner.say, flush=True)
        evidence[step.experiment.name] = found
    return evidence


def _load_evidence(step: ScheduledExperiment, runner: Runner) -> xr.Dataset | None:
    """The evidence of an experiment, if its file exists; prints a note if the experiment's module has changed since."""
    found = load_evidence(step.experiment, step.params, runner)
    if found is not None and found.attrs.get("source") != measurement_source_hash(step.experiment):
        module = step.experiment.measure.__module__
        print(f"{module} has changed since {step.path} was measured; delete the file to measure again", file=runner.say)
    return found
