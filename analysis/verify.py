"""Test the claims of the papers: run the missing experiments, judge each claim, write
a report.

python -m analysis.verify --quick
python -m analysis.verify
python -m analysis.verify --only CA.table2 VC.figure9
"""

import dataclasses
from pathlib import Path
from typing import Literal

from analysis import output, reproduction
from analysis.command_line.options import TableOptions
from analysis.command_line.parsing import run_command
from dynamics import sweeps
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """Test the main claims of CA, VC, CH, ZL and NA, and some of our own. Missing runs
    are simulated or trained. A printed number agrees or differs, a stated direction
    holds, is contradicted or is open, by the 95% interval. Measurements are stored and
    are not repeated; after an interruption the same command resumes. The report of a
    default run is docs/report.md."""

    quick: bool = False
    """Use small ensembles and only short experiments, which take less than 10 minutes
    on two cores."""
    full: bool = False
    """Use the papers' sizes in all experiments, on a GPU or a cluster. Prints the
    estimated run time, then starts."""
    only: tuple[str, ...] = ("all",)
    """Test only claims with these names or whose names start with them, for example
    CA.table2. Results are printed, and no report is written. Default: all claims."""
    list: bool = False
    """Only list the claims."""
    plan: bool = False
    """Only list the experiments to run, with estimates of their run times."""
    out: Path | None = None
    """Report to write: FILE.md, and beside it FILE-PAPER.md for each paper. Default:
    report-SIZE.md beside the measurements, or no report with --only."""
    evidence: Path = Path("runs/verify")
    """Folder of the measurements. Those of docs/report.md are in docs/evidence."""
    pictures: bool = True
    """Draw figures for the report."""
    scheduler: str | None = None
    """Address of a dask scheduler on whose workers to compute, as tcp://127.0.0.1:8786.
    Default: use this process."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on."""


def main(options: Options) -> None:
    """Run the missing experiments, judge the claims, write the report."""
    if options.quick and options.full:
        raise SettingsError(
            "quick, full", "both", "one of them, or none for the default"
        )
    reproduction.evidence.check_torch()
    selected = reproduction.select_claims(options.only)
    if options.list:
        print(reproduction.format_claim_list(selected))
        return
    if options.out is not None:
        reproduction.report.check_report_path(options.out)
    if options.scheduler is not None:
        sweeps.check_scheduler(options.scheduler)
    size = reproduction.Size(
        "quick" if options.quick else "full" if options.full else "default"
    )
    if options.evidence.exists() and not options.evidence.is_dir():
        raise SettingsError("evidence", options.evidence, "the name of a folder")
    runner = reproduction.Runner(
        options.log, options.device, options.scheduler, options.evidence
    )
    experiments = reproduction.required_experiments(selected)
    steps = reproduction.evidence.schedule_experiments(experiments, size, runner)
    reproduction.evidence.print_plan(steps, size, options.plan, options.log)
    if options.plan:
        return
    reproduction.evidence.precompute_ensembles(steps, runner)
    evidence = reproduction.evidence.gather_evidence(steps, runner)
    reduced = {step.experiment.name: step.sizing.reduced for step in steps}
    results = []
    for claim in selected:
        experiment = reproduction.EXPERIMENT_OF_CLAIM[claim.name]
        name = experiment.name
        result = reproduction.judge_claim(
            claim, experiment, evidence.get(name), size, reduced.get(name, "")
        )
        results.append(result)
    texts = map(reproduction.format_claim_result, results)
    print("", *texts, sep="\n", file=options.log)
    print(f"\n{reproduction.count_verdicts(results)}", file=options.log)
    if options.csv:
        output.write_table(reproduction.claim_result_table(results), options.csv)
    if options.out or "all" in options.only:
        out = options.out or options.evidence / f"report-{size}.md"
        paths = reproduction.report.write_report(
            results, evidence, steps, size, options.device, out, options.pictures
        )
        lines = [f"report      {path}" for path in paths]
        print("", *lines, sep="\n", file=options.log)


if __name__ == "__main__":
    run_command(main, Options, "analysis.verify")
