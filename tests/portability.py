"""The numeric tests under other processors, versions, users and places, for releases.

python -m tests.portability
python -m tests.portability --only "no AVX" "lowest versions"

Prints a Markdown table for CONTRIBUTING.md. The exit status is 1 if a test fails."""

import argparse
import configparser
import dataclasses
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
NUMERIC = [
    "tests/dynamics/kernels",
    "tests/dynamics/networks",
    "tests/dynamics/particles",
    "tests/dynamics/training",
    "tests/dynamics/recording/test_recording.py",
    "tests/dynamics/test_simulation.py",
    "tests/dynamics/test_branching.py",
    "tests/dynamics/trajectory",
    "tests/analysis/clustering_heads",
    "tests/analysis/committors",
    "tests/analysis/forces",
    "tests/analysis/linearization",
    "tests/analysis/loss_geometry",
    "tests/analysis/progress_measures",
    "tests/analysis/statistics",
    "tests/analysis/structures",
    "tests/analysis/test_recorded_models.py",
    "tests/analysis/transitions",
]
WITHOUT_TORCH = [
    "tests/dynamics/particles",
    "tests/dynamics/test_initial_conditions.py",
    "tests/analysis/statistics",
]
"""Tests for interpreters for which torch is not installed: it would bring several
gigabytes of CUDA packages."""
TEST_TOOLS = ("pytest", "pytest-timeout", "hypothesis", "numpydoc")


@dataclasses.dataclass(frozen=True)
class Condition:
    """Something that differs between machines: environment variables, what starts the
    tests, where the packages lie, or the interpreter."""

    name: str
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prefix: Sequence[str] = ()
    prepare: Callable[[Path], tuple[Path, Path]] | None = None
    """Returns the folder of the packages and the interpreter, from an empty folder"""
    tests: Sequence[str] = tuple(NUMERIC)
    needs: str = ""
    """A program without which the condition cannot be tried"""


def copy_packages(folder: Path) -> None:
    """Copy the files that git tracks or would track into a folder."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listing.stdout.splitlines():
        source = ROOT / name
        if source.is_file() and not name.startswith("docs/pictures"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)


def in_a_copy(folder: Path, name: str = "packages") -> tuple[Path, Path]:
    """A copy of the packages in a folder of this name."""
    copy_packages(folder / name)
    return folder / name, Path(sys.executable)


def read_only(folder: Path) -> tuple[Path, Path]:
    """A copy in which nobody may write; root may all the same, so that the tests run
    as another user."""
    packages, python = in_a_copy(folder)
    for path in (packages, *packages.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in (folder, *folder.parents):
        if parent.owner() == "root" and parent != Path(parent.anchor):
            parent.chmod(parent.stat().st_mode | 0o055)
    return packages, python


def install(folder: Path, python: str, pins: Sequence[str]) -> tuple[Path, Path]:
    """A copy, and an environment of an interpreter with pinned packages."""
    packages, _ = in_a_copy(folder)
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    program = folder / "venv" / "bin" / "python"
    pip = [program, "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, *pins], check=True)
    return packages, program


def pinned(names: Sequence[str]) -> list[str]:
    """The versions of packages in `constraints.txt`."""
    text = (ROOT / "constraints.txt").read_text()
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))
    by_name = {name.lower(): version for name, version in versions.items()}
    return [f"{name}=={by_name[name.lower()]}" for name in names]


def lowest_versions(section: str, option: str) -> list[str]:
    """The lowest versions that an option of `setup.cfg` allows."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser[section][option].splitlines()
    found = (re.match(r"([\w-]+)\s*>=([\d.]+)", line) for line in lines)
    return [f"{match[1]}=={match[2]}" for match in found if match]


def with_lowest_versions(folder: Path) -> tuple[Path, Path]:
    """All packages that the core needs at their lowest versions. torch keeps the tested
    version: others bring several gigabytes of CUDA packages."""
    pins = lowest_versions("options", "install_requires")
    tools = pinned([*TEST_TOOLS, "torch", "safetensors", "dask", "distributed"])
    tools += pinned(["curvlinops-for-pytorch"])
    return install(folder, sys.executable, [*pins, *tools])


def with_python(folder: Path, version: str) -> tuple[Path, Path]:
    """Another version of Python, with the tested versions of the packages."""
    names = [
        pin.split("==")[0] for pin in lowest_versions("options", "install_requires")
    ]
    return install(folder, f"python{version}", pinned([*names, *TEST_TOOLS]))


CONDITIONS = [
    Condition("torch without AVX", {"ATEN_CPU_CAPABILITY": "default"}),
    Condition("torch with AVX2", {"ATEN_CPU_CAPABILITY": "avx2"}),
    Condition("MKL on any processor", {"MKL_CBWR": "COMPATIBLE"}),
    Condition("Numba for any processor", {"NUMBA_CPU_NAME": "generic"}),
    Condition("one core", prefix=("taskset", "-c", "0"), needs="taskset"),
    Condition(
        "another user, packages that are read-only",
        {
            "HOME": "/nonexistent",
            "PYTEST_ADDOPTS": "-W 'ignore:compiled kernels cannot be kept'",
        },
        prefix=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
        prepare=read_only,
        needs="setpriv",
    ),
    Condition(
        "a path with spaces and signs",
        prepare=functools.partial(in_a_copy, name="dynamique d'entraînement λ"),
    ),
    Condition("LANG=C", {"LANG": "C", "LC_ALL": "C"}),
    Condition("a time zone far east", {"TZ": "Pacific/Kiritimati"}),
    Condition("lowest versions of setup.cfg", prepare=with_lowest_versions),
    *(
        Condition(
            f"Python {version}, without torch",
            prepare=functools.partial(with_python, version=version),
            tests=tuple(WITHOUT_TORCH),
            needs=f"python{version}",
        )
        for version in ("3.12", "3.13", "3.14")
    ),
]


def run_tests(condition: Condition, words: Sequence[str]) -> tuple[bool, str]:
    """Whether all tests pass under a condition, and the last line of pytest."""
    if condition.needs and not runs(condition.needs):
        return True, f"not tried: {condition.needs} is not installed"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        packages, python = ROOT, Path(sys.executable)
        if condition.prepare:
            try:
                packages, python = condition.prepare(folder)
            except subprocess.CalledProcessError as error:
                return False, f"set-up: status {error.returncode}"
        place = Path(tempfile.mkdtemp(dir=folder))
        place.chmod(0o777)
        command = [
            *condition.prefix,
            str(python),
            "-m",
            "pytest",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            f"--basetemp={place}/tests",
            *words,
            *condition.tests,
        ]
        environment = {**os.environ, "TMPDIR": str(place), **condition.variables}
        environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(place)
        done = subprocess.run(
            command,
            cwd=packages,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode:
        print(*done.stdout.splitlines()[-60:], sep="\n", file=sys.stderr)
    counts = re.findall(
        r"^.*\b\d+ (?:passed|failed|error).*$", done.stdout, re.MULTILINE
    )
    return done.returncode == 0, counts[-1].strip("= ") if counts else "no tests"


def runs(program: str) -> bool:
    """Whether a program can be started."""
    path = shutil.which(program)
    words = [path, "--version"]
    return bool(path) and subprocess.run(words, capture_output=True).returncode == 0


def main() -> int:
    """Run the tests under each condition and print the table."""
    parser = argparse.ArgumentParser(
        "python -m tests.portability", description=__doc__.splitlines()[0]
    )
    names = [condition.name for condition in CONDITIONS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("words", nargs="*", help="options of pytest, after --")
    options = parser.parse_args()
    print("| condition | numeric tests |\n| --- | --- |", flush=True)
    failed = False
    for condition in CONDITIONS:
        if condition.name in options.only:
            passed, line = run_tests(condition, options.words)
            failed |= not passed
            print(f"| {condition.name} | {line} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
