"""Parsing of command lines, exit codes, and error messages in one line.

Exit codes: 0 success; 1 failure; 2 invalid arguments; 130 and 143 interruption by
SIGINT and SIGTERM. The modules of commands import only small modules, so that --help
prints without delay."""

import difflib
import io
import itertools
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
)
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import tyro

from analysis.command_line import interrupts
from analysis.command_line.help_texts import (
    REGISTRY,
    command_description,
    is_union,
    option_kinds,
    subcommand_options,
)
from analysis.output.files import check_paths
from analysis.panels.style import style_in_use
from dynamics.errors import ReportedError, SettingsError, TrajectoryError
from dynamics.folders import absolute_folder
from dynamics.forces import Force

Options = TypeVar("Options")

_OTHER_NAME = {"steps": "epochs", "epochs": "steps", "from": "start", "start": "from"}
"""Options with the same purpose in different commands. A command has only one option of
such a pair, and the error for the other one suggests it."""

_KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    Path: "a path",
    str: "a word",
    bool: "True or False",
    tuple[int, int]: "two whole numbers",
}
"""Descriptions of the values of an option by its type."""


def run_command(
    main: Callable[[Options], None],
    options: type[Options],
    program: str,
    inherited: Callable[[Sequence[str]], Options | None] | None = None,
) -> None:
    """Parse the command line of `python -m program` into its options and run `main`.

    inherited: returns the defaults of a command line that names a run to continue from,
    else None."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # neither closed nor replaced by the caller
            stream.reconfigure(errors="backslashreplace")
    # no command opens a window, and an unknown name would end matplotlib's import
    os.environ["MPLBACKEND"] = "agg"
    chosen: Any = None
    try:
        with interrupts.interruptible():
            chosen = parse_options(
                options, program, inherited(sys.argv[1:]) if inherited else None
            )
            check_paths(chosen)
            with _home_folder(), _chosen_style(chosen):
                main(chosen)
            if sys.stdout is not None:
                sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        _exit_with_message(error, options, chosen)
        raise


def _output_is_closed() -> bool:
    """Whether the reader of the standard output has closed it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return True
    return False


@contextmanager
def _home_folder() -> Iterator[None]:
    """Give a user without a home folder a temporary one while a command runs: Numba keeps
    compiled kernels there, bokeh and matplotlib look for their settings."""
    if absolute_folder("~") is not None:
        yield
        return
    print(
        "warning: the user has no home folder; compiled kernels are kept in a temporary"
        " one while this command runs. Set the environment variable HOME",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        try:
            yield
        finally:
            del os.environ["HOME"]


def _chosen_style(options: Any) -> AbstractContextManager[Any]:
    """The style of pictures that the options of a command choose, if it writes
    pictures."""
    style = getattr(options, "style", None)
    if not style:
        return nullcontext()
    return style_in_use(style, getattr(options, "column", False))


@contextmanager
def exit_on_settings_error() -> Iterator[None]:
    """Exit with a SettingsError in one line and its exit code, before the options are
    known; the field keeps its own name."""
    try:
        yield
    except SettingsError as error:
        _fail(f"error: {error}", error.exit_code)


def parse_options(options: type[Options], program: str, default: Any = None) -> Options:
    """The options given on the command line of `python -m program`; others are taken
    from `default`.

    Raises SettingsError for invalid arguments.
    """
    arguments = _current_names(sys.argv[1:], options)
    asks_for_help = {"-h", "--help"} & set(arguments)
    _check_output_names(sys.argv[1:])
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(
                options,
                args=arguments,
                prog=f"python {'' if program.endswith('.py') else '-m '}{program}",
                description=command_description(options) if asks_for_help else "",
                default=default,
                config=(tyro.conf.OmitArgPrefixes,),
                registry=REGISTRY,
            )
    except SystemExit as end:
        if end.code != 2:  # help, or a signal
            sys.stderr.write(printed.getvalue())
            raise
        raise _settings_error(end) or _wrong_argument(arguments, options) from None


def _current_names(arguments: Sequence[str], options: type) -> list[str]:
    """The arguments with the current names of options that had other names before
    (the class attribute `former_names` of the options)."""
    former_names: Mapping[str, str] = getattr(options, "former_names", {})
    names = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        names.append(former_names.get(name, name) + equals + value)
    return names


def _check_output_names(arguments: Sequence[str]) -> None:
    """Raise SettingsError for an output file whose name ends in a slash, as Path would
    remove the slash."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    for option, value in itertools.pairwise(words):
        if option in ("--out", "--csv", "--export") and value.endswith(os.sep):
            raise SettingsError(
                option.removeprefix("--"), value, "the name of a file, not of a folder"
            )


# ------------------------------------------------------------------------------- errors


def _settings_error(error: BaseException | None) -> SettingsError | None:
    """The SettingsError of a class of settings from which an error arose."""
    while error is not None and not isinstance(error, SettingsError):
        error = error.__context__
    return error


def _wrong_argument(arguments: Sequence[str], options: type) -> SettingsError:
    """The error for a command line that the parser rejects: its first argument that the
    options do not allow."""
    subcommand = subcommand_options(options, next(iter(arguments), ""))
    named, positional = option_kinds(subcommand)
    (_, free), *given = _split_options(arguments[subcommand is not options :])
    for option, words in given:
        if named.get(option.removeprefix("no_")) is bool:
            free += words
            continue
        if option not in named:
            return _unknown_option(option, list(named))
        kind = named[option]
        if kind == tuple[Force, ...]:
            if len(words) != 1:
                found = " ".join(words) or "no value"
                return SettingsError(option, found, "one law")
            continue
        count = _count_words(kind, words)
        if count == 0:
            several = any(get_origin(item) is tuple for item in (kind, *get_args(kind)))
            found = " ".join(words if several else words[:1])
            allowed = _describe_kind(kind)
            if not words and str in (kind, *get_args(kind)):
                allowed += f"; --{option}=-r is one that begins with a minus sign"
            return SettingsError(option, found or "no value", allowed)
        more = words[count:]
        if more and not positional and kind in (int, float, str):
            found = " ".join(words)
            allowed = "one value; sims.sweep takes several"
            return SettingsError(option, found, allowed)
        free += more
    takes_more = any(get_origin(kind) is tuple for kind in positional.values())
    if len(free) > len(positional) and not takes_more:
        unknown = free[len(positional)]
        allowed = "options only, which begin with -- and which --help lists"
        if positional:
            allowed = f"{', '.join(positional)} and options, as --help lists them"
        return SettingsError(_ARGUMENTS, unknown, allowed)
    if len(free) < len(positional):
        name = list(positional)[len(free)]
        return SettingsError(name, "no value", "a trajectory file, such as runs/x.nc")
    return SettingsError(_ARGUMENTS, "a mistake", "the arguments that --help lists")


_ARGUMENTS = "arguments of the command"


def _split_options(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Each option with the words after it; before them "", with the words before any
    option."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for argument in arguments:
        if re.match("--?[A-Za-z]", argument):
            name, equals, value = argument.removeprefix("--").partition("=")
            name = re.sub("(?<=.)-", "_", name)
            parts.append((name, [value] if equals else []))
        else:
            parts[-1][1].append(argument)
    return parts


def _count_words(kind: Any, words: Sequence[str]) -> int:
    """How many of the first words are a value of a type; 0 if they are none."""
    items = get_args(kind)
    if is_union(kind):
        return max(_count_words(item, words) for item in items)
    if get_origin(kind) is tuple:
        if Ellipsis in items:
            items = items[:1] * len(words)
        fit = [_count_words(*pair) for pair in zip(items, zip(words), strict=False)]
        return len(items) if len(fit) == len(items) and all(fit) else 0
    if not words:
        return 0
    if get_origin(kind) is Literal:
        return int(words[0] in map(str, items))
    if kind is type(None):
        return int(words[0] == "None")
    if kind is bool:
        return int(words[0] in ("True", "False"))
    try:
        kind(words[0])
    except ValueError:
        return 0
    return 1


def _describe_kind(kind: Any) -> str:
    """The values of a type in words."""
    if kind in _KINDS:
        return _KINDS[kind]
    items = [item for item in get_args(kind) if item is not type(None)]
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, items))}"
    return _describe_kind(items[0]) if items else "another value"


def _unknown_option(name: str, names: list[str]) -> SettingsError:
    """The error for an option that does not exist, with a similar one that does."""
    similar = difflib.get_close_matches(name, names, n=1)
    other_name = _OTHER_NAME.get(name, "")
    if other_name in names:
        similar = [other_name]
    allowed = "an option"
    if similar:
        allowed = f"--{similar[0].replace('_', '-')}, or another option"
    option = name if name.startswith("-") else "--" + name.replace("_", "-")
    found = "an option that does not exist here"
    return SettingsError(option, found, f"{allowed} that --help lists")


def _exit_with_message(error: BaseException, options: type, chosen: Any) -> None:
    """Exit with a message for the user; return if the error is a defect of the
    program."""
    cause: BaseException | None = error
    while isinstance(cause, SystemError):  # compiled code replaces a SystemExit by it
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, SystemExit):
        sys.exit(cause.code)
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    if isinstance(error, KeyboardInterrupt):
        resumable = getattr(error, "resumable", None)
        if resumable is None:
            _fail(interrupts.MESSAGE, 128 + signal.SIGINT)
        overwrite = getattr(getattr(chosen, "ensemble", None), "overwrite", False)
        same = (
            "the same command without --overwrite" if overwrite else "the same command"
        )
        again = (
            f": {same} continues from there"
            if resumable
            else "; the same command starts again"
        )
        _fail(f"{error}{again}{notes}", 128 + error.signum)  # type: ignore[attr-defined]
    if isinstance(error, SettingsError):
        _fail(
            f"error: {_on_command_line(error.field, options)}: found {error.found},"
            f" allowed is {error.allowed}{notes}",
            error.exit_code,
        )
    if isinstance(error, ReportedError):
        _fail(f"error: {_unnamed_file(error, chosen)}{error}{notes}", error.exit_code)
    if isinstance(error, OSError):
        words = f"{error.filename or 'output'}: {error.strerror}"
        _fail(f"error: {words if error.strerror else error}{notes}", 1)


def _unnamed_file(error: ReportedError, chosen: Any) -> str:
    """The name of the only trajectory that a command reads, if the message of an error
    about it does not have it."""
    path = getattr(chosen, "trajectory", None)
    options = (chosen, getattr(chosen, "analysis", None))
    others = any(
        getattr(item, name, None) for item in options for name in ("other", "others")
    )
    named = (
        path is None
        or others
        or not isinstance(error, TrajectoryError)
        or str(path) in str(error)
    )
    return "" if named else f"{path}: "


def _on_command_line(fields: str, options: type) -> str:
    """Names of fields as written on the command line; names of variables, classes and
    members are not changed.

    The option of a setting may have another name (the class attribute `option_names` of
    the options), and a number of steps may be given in epochs."""
    options = subcommand_options(options, next(iter(sys.argv[1:]), ""))
    named, positional = option_kinds(options)
    other_names: Mapping[str, str] = getattr(options, "option_names", {})
    names = []
    for name in (word.strip() for word in fields.split(",")):
        other = other_names.get(name, _OTHER_NAME.get(name, name))
        if name not in named and other in named:
            name = other
        is_option = name.isidentifier() and name.islower()
        names.append(
            name.upper()
            if name in positional
            else "--" + name.replace("_", "-")
            if is_option
            else name
        )
    return " ".join(names)


def _fail(message: str, code: int) -> NoReturn:
    """Exit with a message in one line; a line break in a name is printed as an
    escape."""
    control = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"
    line = re.sub(control, lambda match: repr(match[0])[1:-1], message)
    print(line, file=sys.stderr)
    sys.exit(code)
