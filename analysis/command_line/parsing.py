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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn, TypeVar

import tyro
from tyro import _errors as parse_errors

from analysis.command_line import interrupts
from analysis.command_line.help_texts import REGISTRY, command_description, option_names
from analysis.command_line.home import home_folder
from analysis.output.files import check_paths
from analysis.panels.style import style_in_use
from dynamics.errors import ReportedError, SettingsError, TrajectoryError

Options = TypeVar("Options")

_SAME_MEANING = {"steps": "epochs", "epochs": "steps"}
"""Pairs of alternative options; a command has at most one of each pair."""

_KINDS = {
    "INT": "a whole number",
    "FLOAT": "a number",
    "PATH": "a path",
    "STR": "a word",
    "INT INT": "two whole numbers",
}
"""Descriptions of the values that placeholders stand for."""


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
    chosen: Any = None
    try:
        with interrupts.interruptible():
            chosen = parse_options(
                options, program, inherited(sys.argv[1:]) if inherited else None
            )
            check_paths(chosen)
            with home_folder(), _chosen_style(chosen):
                main(chosen)
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, KeyboardInterrupt) as error:
        _exit_with_message(error, options, chosen)
        raise


def _chosen_style(options: Any) -> AbstractContextManager[Any]:
    """The style of pictures that the options of a command choose, if it writes
    pictures."""
    style = getattr(options, "style", None)
    return (
        style_in_use(style, getattr(options, "column", False))
        if style
        else nullcontext()
    )


@contextmanager
def exit_on_settings_error() -> Iterator[None]:
    """Report a SettingsError as `run_command` does, before the options have been
    parsed."""
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

    def refuse(event: parse_errors.ParseErrorEvent) -> NoReturn:
        raise _parse_error(event, options)

    _check_output_names(sys.argv[1:])
    with parse_errors.on_parse_error(refuse):
        return tyro.cli(
            options,
            args=arguments,
            prog=f"python {'' if program.endswith('.py') else '-m '}{program}",
            description=command_description(options) if asks_for_help else "",
            default=default,
            config=(tyro.conf.OmitArgPrefixes,),
            registry=REGISTRY,
        )


def _current_names(arguments: Sequence[str], options: type) -> list[str]:
    """The arguments with the current names of options that had other names before
    (the class attribute `former_names` of the options)."""
    former_names: Mapping[str, str] = getattr(options, "former_names", {})
    result = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        result.append(former_names.get(name, name) + equals + value)
    return result


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


def _parse_error(event: parse_errors.ParseErrorEvent, options: type) -> SettingsError:
    """The error for a command line that tyro rejects."""
    error = sys.exc_info()[1]
    while error is not None:  # raised by the class of the settings
        if isinstance(error, SettingsError):
            return error
        error = error.__context__
    unknown = getattr(event, "tokens", None) or getattr(
        event, "unrecognized_tokens", None
    )
    if unknown:
        return _unknown_argument(unknown[0], options)
    match event:
        case parse_errors.MissingArgs():
            name = _name_of(event.missing_arguments[0].arg)
            return SettingsError(
                name, "no value", "a trajectory file, such as runs/x.nc"
            )
        case parse_errors.MissingSubcommand():
            names = ", ".join(event.subcommand_spec.parser_from_name)
            return SettingsError(
                "name of the system",
                event.found_token or "none",
                f"one of {names}, as first word",
            )
        case parse_errors.InvalidChoice():
            return SettingsError(_name_of(event.argument), event.value, _choices(event))
        case parse_errors.BadValue():
            return SettingsError(
                _name_of(event.argument), "no value", _kind_of(event.argument)
            )
        case parse_errors.InstantiationFailure(argument=argument) if (
            argument is not None
        ):
            return SettingsError(
                _name_of(argument),
                _given_value(argument) or "no value",
                _kind_of(argument),
            )
    return SettingsError(
        "arguments of the command",
        "invalid arguments",
        "the arguments that --help lists",
    )


def _unknown_argument(token: str, options: type) -> SettingsError:
    if not token.startswith("-"):
        return SettingsError(
            "arguments of the command", token, "the arguments that --help lists"
        )
    name, names = (
        token.lstrip("-").partition("=")[0].replace("-", "_"),
        option_names(options)[0],
    )
    similar = [item for item in (_SAME_MEANING.get(name),) if item in names]
    names = [item for item in names if item != name]  # of another subcommand
    similar = similar or difflib.get_close_matches(name, names, n=1)
    allowed = (
        f"--{similar[0].replace('_', '-')}, or another option"
        if similar
        else "an option"
    )
    return SettingsError(
        name, "an option that does not exist here", f"{allowed} that --help lists"
    )


def _choices(event: parse_errors.InvalidChoice) -> str:
    placeholder = str(event.argument.lowered.metavar)
    names = (
        placeholder[1:-1].split(",") if placeholder.startswith("{") else event.choices
    )
    return f"one of {', '.join(names)}"


def _name_of(argument: Any) -> str:
    return argument.display_name().split("/")[-1].lstrip("-").replace("-", "_")


def _given_value(argument: Any) -> str:
    """The words after the last occurrence of an option on the command line."""
    option, words, given = _name_of(argument), sys.argv[1:], ""
    for index, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--") and name.replace("-", "_") == option:
            following = itertools.takewhile(
                lambda text: not text.startswith("--"), words[index + 1 :]
            )
            given = value if equals else " ".join(following)
    return given


def _kind_of(argument: Any) -> str:
    placeholder = str(argument.lowered.metavar)
    return _KINDS.get(placeholder.strip("[").partition(" [")[0], placeholder)


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
            2,
        )
    if isinstance(error, ReportedError):
        _fail(f"error: {_unnamed_file(error, chosen)}{error}{notes}", error.exit_code)
    if isinstance(error, OSError):
        _fail(f"error: {error.filename or 'output'}: {error.strerror}{notes}", 1)


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
    members are not changed."""
    positional, names = option_names(options)[1], []
    for name in (word.strip() for word in fields.split(",")):
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
