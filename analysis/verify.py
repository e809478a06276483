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

from analysis.command_line.parsing import command
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import xarray as xr

    from analysis.reproduction.verification.claim import Claim
    from analysis.reproduction.verification.claim_results import About, Judged
    from analysis.reproduction.verification.experiment import Lab, Size
    from analysis.reproduction.verification.schedule import Step


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
    size = size_of(options)
    check_torch()
    from analysis.reproduction.claims.registry import chosen
    from analysis.reproduction.verification.experiment import Lab
    from analysis.reproduction.verification.schedule import send_ahead, steps_of
    from dynamics.sweeps.dask_backend import check_scheduler

    claims = chosen(options.only)
    if options.list:
        print(listing(claims))
        return
    check_out(options.out)
    if options.scheduler is not None:
        check_scheduler(options.scheduler)
    lab = Lab(options.say, options.device, options.scheduler)
    steps = steps_of(studies_of(claims), size, lab)
    tell_plan(steps, size, options)
    if options.plan:
        return
    send_ahead(steps, lab)
    found = gathered(steps, lab, claims, size)
    done = [judge_one(claim, found, size) for claim in claims]
    tell_verdicts(done, options)
    if options.out or "all" in options.only:
        report(done, found, steps, size, options)


# ------------------------------------------------------------------------------------------ what is asked for


def size_of(options: Options) -> "Size":
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


def check_out(out: Path | None) -> None:
    """See that a report can be written there, before any work is done. Raises SettingsError, RecordingError."""
    import os

    from analysis.reproduction.verification.contents import TITLE
    from dynamics.trajectory.netcdf import RecordingError

    if out is None:
        return
    if out.suffix != ".md" or out.is_dir():
        raise SettingsError("out", out, "the name of a file that ends in .md; the page lies beside it as .html")
    if out.exists() and not out.read_text(errors="replace").startswith(f"# {TITLE}"):
        raise SettingsError("out", f"{out}, which is something else", "a new file, or an earlier report")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise RecordingError(f"{out.parent}: no files can be written there")


def listing(claims: "Sequence[Claim]") -> str:
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


def studies_of(claims: "Sequence[Claim]") -> list:
    """The studies that claims are read off, in their order."""
    from analysis.reproduction.experiments.register import STUDIES

    needed = {claim.study for claim in claims}
    return [each for each in STUDIES if each.name in needed]


# ------------------------------------------------------------------------------------------------ what is done


def tell_plan(steps: "Sequence[Step]", size: "Size", options: Options) -> None:
    """What there is to do, and about how long it takes."""
    from analysis.reproduction.verification.formatting import duration
    from analysis.reproduction.verification.schedule import table

    missing = [each for each in steps if each.seconds]
    if not steps:
        print(f"{size} size: nothing to measure for these claims", file=options.say)
        return
    if missing or options.plan:
        print(table(steps).text(), file=options.say)
    takes = f"about {duration(sum(each.seconds for each in missing))} on two cores" if missing else "all is there"
    print(f"\n{size} size: {len(missing)} of {len(steps)} studies to do, {takes}", file=options.say, flush=True)


def gathered(steps: "Sequence[Step]", lab: "Lab", claims: "Sequence[Claim]", size: "Size") -> "dict[str, xr.Dataset]":
    """The evidence of each study, by its name: found, or measured now, telling verdicts and time left."""
    from analysis.reproduction.verification.evidence import found, measured, source_of
    from analysis.reproduction.verification.formatting import duration
    from analysis.reproduction.verification.verdict_table import verdict_of

    evidence, left, spent, planned = {}, sum(each.seconds for each in steps), 0.0, 0.0
    for place, (study, params, path, seconds) in enumerate(steps, 1):
        there = found(study, params, lab)
        if there is not None and there.attrs.get("source") != source_of(study):
            changed = f"{study.measure.__module__} has changed since {path} was measured"
            print(f"{changed}; without the file it is measured again", file=lab.say)
        if there is None:
            pace = spent / planned if planned > 60 else 1.0
            print(
                f"\n[{place}/{len(steps)}] {study.name}: {study.what}; about {duration(pace * seconds)}, "
                f"of {duration(pace * left)} left",
                file=lab.say, flush=True,
            )  # fmt: skip
            begin = time.perf_counter()
            there = measured(study, params, lab)
            spent, planned, left = spent + time.perf_counter() - begin, planned + seconds, left - seconds
            for claim in claims:
                if claim.study == study.name:
                    print(verdict_of(judge_one(claim, {study.name: there}, size)), file=lab.say, flush=True)
        evidence[study.name] = there
    return evidence


def judge_one(claim: "Claim", found: "Mapping[str, xr.Dataset]", size: "Size") -> "Judged":
    """A claim judged by the evidence of its study, if that was done."""
    from analysis.reproduction.verification.claim_results import judged

    return judged(claim, found.get(claim.study), size)


# ------------------------------------------------------------------------------------------------ what is told


def tell_verdicts(done: "Sequence[Judged]", options: Options) -> None:
    """All verdicts, and how many there are of each; as CSV too."""
    from analysis.reproduction.verification.verdict_table import as_table, told, totals

    whole = "all" not in options.only
    print("", *(told(each, whole) for each in done), f"\n{totals(done)}", sep="\n", file=options.say)
    if options.csv:
        as_table(done).write_csv(options.csv)


def report(
    done: "Sequence[Judged]", found: "Mapping[str, xr.Dataset]", steps: "Sequence[Step]", size: "Size", options: Options
) -> None:
    """Write the report, and say where it is."""
    from analysis.reproduction.experiments.register import STUDIES
    from analysis.reproduction.verification.evidence import FOLDER
    from analysis.reproduction.verification.report import write_report

    out = options.out or FOLDER / f"report-{size}.md"
    studies = {each.name: each for each in STUDIES}
    paths = write_report(done, about(found, steps, size, options.device), studies, out, options.pictures)
    print("\n" + "\n".join(f"report      {path}" for path in paths), file=options.say)


def about(found: "Mapping[str, xr.Dataset]", steps: "Sequence[Step]", size: "Size", device: str) -> "About":
    """When and by what the evidence was made, and how long that took."""
    import json

    from analysis.reproduction.verification.claim_results import About
    from analysis.reproduction.verification.evidence import circumstances

    made = [each.attrs for each in found.values()] or [circumstances(device)]
    environment = json.loads(max(made, key=lambda each: each["created_at"])["package_versions"])
    for name, word in (("cores", "cores"), ("device", "device"), ("git_commit", "commit")):
        environment[word] = ", ".join(sorted({str(each[name]) for each in made}))  # of all that was measured
    needs = {need: None for step in steps for need in step.study.ensembles(step.params)}
    return About(
        size=size,
        created_at=max(each["created_at"] for each in made),
        environment=environment,
        seconds=sum(float(each.attrs["seconds"]) for each in found.values()),
        runs=sum(need.runs for need in needs),
    )


if __name__ == "__main__":
    command(main, Options, "analysis.verify")
