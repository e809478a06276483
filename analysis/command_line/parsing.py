"""What all command lines share: parsing, exit codes, and how errors are told to a person.

Exit codes: 0 done; 1 could not be done; 2 bad arguments; 130 and 143 interrupted by SIGINT and SIGTERM,
and resumable. A command's module imports nothing heavy before its options are parsed, so that --help
answers at once.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import tyro

from analysis.output.files import check_csv
from dynamics.settings import SettingsError

Options = TypeVar("Options")


def run_command(
    main: Callable[[Options], None],
    options: type[Options],
    program: str,
    inherited: Callable[[Sequence[str]], Options | None] | None = None,
) -> None:
    """Parse the command line of `python -m program` into its options and run it.

    inherited: gives the defaults of a command line that names a run to go on from, else None.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not closed, not replaced, by whoever started this
            stream.reconfigure(errors="backslashreplace")
    chosen: object = None
    try:
        given = parse_options(options, program, inherited(sys.argv[1:]) if inherited else None)
        signal.signal(signal.SIGTERM, _stop)
        chosen = given
        check_csv(given)
        main(given)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, KeyboardInterrupt) as error:
        _tell(error, chosen)
        raise


@contextmanager
def exit_on_settings_error() -> Iterator[None]:
    """Tell a SettingsError as a command does, of what is done before its options are known."""
    try:
        yield
    except SettingsError as error:
        _refuse(error)


def parse_options(options: type[Options], program: str, default: Any = None) -> Options:
    """The options that the command line of `python -m program` gives, on top of a default."""
    return tyro.cli(
        options,
        prog=f"python -m {program}",
        description=options.__doc__,
        default=default,
        config=(tyro.conf.OmitArgPrefixes,),
    )


def _stop(signum: int, frame: object) -> None:  # the loop has its own way; this is for all that is around it
    _fail("interrupted; the same command begins again or goes on", 128 + signum)


def _tell(error: BaseException, chosen: object) -> None:
    """Exit with what a person needs to know; comes back where the error is a fault of the program."""
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)
    if isinstance(error, SettingsError):
        _refuse(error)
    from dynamics.simulation import Interrupted, MissingPackage
    from dynamics.trajectory.netcdf import RecordingError, TrajectoryError

    if isinstance(error, TrajectoryError | RecordingError | MissingPackage):
        _fail(f"error: {error}", 1)
    if isinstance(error, Interrupted):
        amount = getattr(chosen, "amount", None)
        same = "the same command without --overwrite" if getattr(amount, "overwrite", False) else "the same command"
        again = f": {same} goes on from there" if error.resumable else "; the same command begins again"
        _fail(f"{error}{again}", 128 + error.signum)
    if isinstance(error, KeyboardInterrupt):
        _fail("interrupted; the same command begins again or goes on", 128 + signal.SIGINT)
    if isinstance(error, OSError):
        _fail(f"error: {error.filename or 'output'}: {error.strerror}", 1)


def _refuse(error: SettingsError) -> NoReturn:
    names = [name.strip() for name in error.field.split(",")]
    are = [name.isidentifier() and name.islower() for name in names]  # others are variables, classes and their members
    option = " ".join("--" + name.replace("_", "-") if is_ else name for name, is_ in zip(names, are, strict=True))
    _fail(f"error: {option}: found {error.found}, allowed is {error.allowed}", 2)


def _fail(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)
