"""Every claim of both papers put to the test: what is missing is run, each claim is judged, a report is written.

python -m analysis.verify --quick
python -m analysis.verify
python -m analysis.verify --only CA.table2 VC.figure9
"""

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import xarray as xr

    from analysis.reproduction.verification.claim import Claim
    from analysis.reproduction.verification.claim_results import ClaimResult, ReportProvenance
    from analysis.reproduction.verification.experiment import Runner, Size
    from analysis.reproduction.verification.schedule import ScheduledExperiment


@dataclasses.dataclass(frozen=True)
class Options:
    """Put every claim of both papers to the test, and some of our own: run or train what is not there yet, judge each
    claim as reproduced, partly, not reproduced or not testable, or undecided where these runs cannot tell, by the rules
    that the report tells, and write that report. What has been measured is kept in runs/verify/ and not measured again;
    the same command goes on where it was stopped. The report of a default run is docs/report.md."""

    quick: bool = False
    """Small ensembles, and only studies that are cheap: within 10 minutes on two cores."""
    full: bool = False
    """The papers' own sizes everywhere: for a GPU or a cluster. Tells its cost and asks nothing."""
    only: tuple[str, ...] = ("all",)
    """Only claims of these names, or whose names begin with these words, such as CA.table2; told here, without a
    report."""
    list: bool = False
    """Only list the claims."""
    plan: bool = False
    """Only tell what is to be done, and about how long it takes."""
    out: Path | None = None
    """Report to write, FILE.md and FILE.html. None is runs/verify/report-SIZE.md, or none with --only."""
    pictures: bool = True
    """Draw figures for the report."""
    csv: Path | None = None
    """Also write the verdicts to a CSV file; - is the terminal."""
    scheduler: str | None = None
    """Compute ensembles on the workers of a dask cluster, such as tcp://127.0.0.1:8786. None is this process."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    @property
    def say(self):
        """Where a person is told things: not among the numbers, where these go to the terminal."""
        return sys.stderr if str(self.csv) == "-" else sys.stdout


def main(options: Options) -> None:
    """Run what is missing, judge, report."""
    size = experiment_size(options)
    check_torch()
    from analysis.reproduction.claims.registry import select_claims
    from analysis.reproduction.verification.experiment import Runner
    from analysis.reproduction.verification.schedule import precompute_ensembles, schedule_experiments
    from dynamics.sweeps.dask_backend import check_scheduler

    claims = select_claims(options.only)
    if options.list:
        print(format_claim_list(claims))
        return
    check_report_path(options.out)
    if options.scheduler is not None:
        check_scheduler(options.scheduler)
    lab = Runner(options.say, options.device, options.scheduler)
    steps = schedule_experiments(required_experiments(claims), size, lab)
    print_plan(steps, size, options)
    if options.plan:
        return
    precompute_ensembles(steps, lab)
    found = gather_evidence(steps, lab, claims, size)
    done = [_judge_by_evidence(claim, found, size) for claim in claims]
    print_verdicts(done, options)
    if options.out or "all" in options.only:
        print_report(done, found, steps, size, options)


# ------------------------------------------------------------------------------------------ what is asked for


def experiment_size(options: Options) -> "Size":
    """Which size is asked for. Raises SettingsError for two."""
    if options.quick and options.full:
        raise SettingsError("quick, full", "both", "one of them, or none for the default")
    from analysis.reproduction.verification.experiment import Size

    return Size.QUICK if options.quick else Size.FULL if options.full else Size.DEFAULT


def check_torch() -> None:
    """Claims of networks need torch. Raises MissingPackage."""
    import importlib.util

    from dynamics.simulation import MissingPackage

    if importlib.util.find_spec("torch") is None:
        raise MissingPackage("claims of networks need torch, which comes with: pip install 'training-dynamics[train]'")


def check_report_path(out: Path | None) -> None:
    """See that a report can be written there, before any work is done. Raises SettingsError, RecordingError."""
    import os

    from analysis.reproduction.verification.contents import REPORT_TITLE
    from dynamics.trajectory.netcdf import RecordingError

    if out is None:
        return
    if out.suffix != ".md" or out.is_dir():
        raise SettingsError("out", out, "the name of a file that ends in .md; the page lies beside it as .html")
    if out.exists() and not out.read_text(errors="replace").startswith(f"# {REPORT_TITLE}"):
        raise SettingsError("out", f"{out}, which is something else", "a new file, or an earlier report")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise RecordingError(f"{out.parent}: no files can be written there")


def format_claim_list(claims: "Sequence[Claim]") -> str:
    """The claims under the names of their studies: each with its statement, or why it cannot be tested."""
    import textwrap

    lines = []
    for study in dict.fromkeys(claim.study for claim in claims):
        lines += ["", study or "not testable"]
        for claim in claims:
            if claim.study == study:
                text = claim.statement + (f" Not testable: {claim.untestable}" if claim.untestable else "")
                lines += textwrap.wrap(f"{claim.name}: {text}", 118, initial_indent="  ", subsequent_indent="      ")
    return "\n".join([*lines[1:], "", f"{len(claims)} claims, {sum(not each.untestable for each in claims)} testable"])


def required_experiments(claims: "Sequence[Claim]") -> list:
    """The studies that claims are read off, in their order."""
    from analysis.reproduction.experiments.register import EXPERIMENTS

    needed = {claim.study for claim in claims}
    return [each for each in EXPERIMENTS if each.name in needed]


# ------------------------------------------------------------------------------------------------ what is done


def print_plan(steps: "Sequence[ScheduledExperiment]", size: "Size", options: Options) -> None:
    """What there is to do, and about how long it takes."""
    from analysis.reproduction.verification.formatting import format_duration
    from analysis.reproduction.verification.schedule import schedule_table

    missing = [each for each in steps if each.seconds]
    if not steps:
        print(f"{size} size: nothing to measure for these claims", file=options.say)
        return
    if missing or options.plan:
        print(schedule_table(steps).text(), file=options.say)
    takes = (
        f"about {format_duration(sum(each.seconds for each in missing))} on two cores" if missing else "all is there"
    )
    print(f"\n{size} size: {len(missing)} of {len(steps)} studies to do, {takes}", file=options.say, flush=True)


def gather_evidence(
    steps: "Sequence[ScheduledExperiment]", lab: "Runner", claims: "Sequence[Claim]", size: "Size"
) -> "dict[str, xr.Dataset]":
    """The evidence of each study, by its name: found, or measured now, telling verdicts and time left."""
    from analysis.reproduction.verification.evidence import load_evidence, measure_evidence, measurement_source_hash
    from analysis.reproduction.verification.formatting import format_duration
    from analysis.reproduction.verification.verdict_table import format_verdict

    evidence, left, spent, planned = {}, sum(each.seconds for each in steps), 0.0, 0.0
    for place, (study, params, path, seconds) in enumerate(steps, 1):
        there = load_evidence(study, params, lab)
        if there is not None and there.attrs.get("source") != measurement_source_hash(study):
            changed = f"{study.measure.__module__} has changed since {path} was measured"
            print(f"{changed}; without the file it is measured again", file=lab.say)
        if there is None:
            pace = spent / planned if planned > 60 else 1.0
            print(
                f"\n[{place}/{len(steps)}] {study.name}: {study.what}; about {format_duration(pace * seconds)}, "
                f"of {format_duration(pace * left)} left",
                file=lab.say, flush=True,
            )  # fmt: skip
            begin = time.perf_counter()
            there = measure_evidence(study, params, lab)
            spent, planned, left = spent + time.perf_counter() - begin, planned + seconds, left - seconds
            for claim in claims:
                if claim.study == study.name:
                    print(
                        format_verdict(_judge_by_evidence(claim, {study.name: there}, size)), file=lab.say, flush=True
                    )
        evidence[study.name] = there
    return evidence


def _judge_by_evidence(claim: "Claim", found: "Mapping[str, xr.Dataset]", size: "Size") -> "ClaimResult":
    """A claim judged by the evidence of its study, if that was done."""
    from analysis.reproduction.verification.claim_results import judge_claim

    return judge_claim(claim, found.get(claim.study), size)


# ------------------------------------------------------------------------------------------------ what is told


def print_verdicts(done: "Sequence[ClaimResult]", options: Options) -> None:
    """All verdicts, and how many there are of each; as CSV too."""
    from analysis.reproduction.verification.verdict_table import (
        claim_result_table,
        format_claim_result,
        format_verdict_totals,
    )

    whole = "all" not in options.only
    print(
        "",
        *(format_claim_result(each, whole) for each in done),
        f"\n{format_verdict_totals(done)}",
        sep="\n",
        file=options.say,
    )
    if options.csv:
        claim_result_table(done).write_csv(options.csv)


def print_report(
    done: "Sequence[ClaimResult]",
    found: "Mapping[str, xr.Dataset]",
    steps: "Sequence[ScheduledExperiment]",
    size: "Size",
    options: Options,
) -> None:
    """Write the report, and say where it is."""
    from analysis.reproduction.experiments.register import EXPERIMENTS
    from analysis.reproduction.verification.evidence import EVIDENCE_FOLDER
    from analysis.reproduction.verification.report import write_report

    out = options.out or EVIDENCE_FOLDER / f"report-{size}.md"
    studies = {each.name: each for each in EXPERIMENTS}
    paths = write_report(done, report_provenance(found, steps, size, options.device), studies, out, options.pictures)
    print("\n" + "\n".join(f"report      {path}" for path in paths), file=options.say)


def report_provenance(
    found: "Mapping[str, xr.Dataset]", steps: "Sequence[ScheduledExperiment]", size: "Size", device: str
) -> "ReportProvenance":
    """When and by what the evidence was made, and how long that took."""
    import json

    from analysis.reproduction.verification.claim_results import ReportProvenance
    from analysis.reproduction.verification.evidence import measurement_provenance

    made = [each.attrs for each in found.values()] or [measurement_provenance(device)]
    environment = json.loads(max(made, key=lambda each: each["created_at"])["package_versions"])
    for name, word in (("cores", "cores"), ("device", "device"), ("git_commit", "commit")):
        environment[word] = ", ".join(sorted({str(each[name]) for each in made}))  # of all that was measured
    needs = {need: None for step in steps for need in step.study.ensembles(step.params)}
    return ReportProvenance(
        size=size,
        created_at=max(each["created_at"] for each in made),
        environment=environment,
        seconds=sum(float(each.attrs["seconds"]) for each in found.values()),
        runs=sum(need.runs for need in needs),
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.verify")
