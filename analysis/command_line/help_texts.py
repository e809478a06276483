"""How tyro shows the options of a command: help texts, placeholders and defaults, read
from dataclasses of options.

An option is a field of a dataclass with a string below it (or with metadata={"help":
...}). Where the string ends in "Default: 100." and the default of the field is None or
empty, the help shows "(default: 100)". Values are shown as INT, FLOAT, STR or PATH;
positional arguments are shown by their names."""

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import shutil
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from dynamics.forces import Force, law_json
from dynamics.law_files import read_law

PAPERS = {
    "CA": (
        "Musat, Clustering and Alignment: Understanding the Training Dynamics in"
        " Modular Addition, arXiv 2408.09414"
    ),
    "VC": (
        "Odonnat et al., A Visual Case Study of the Training Dynamics in Neural"
        " Networks, arXiv 2410.24050"
    ),
    "ZL": (
        "Zhong et al., The Clock and the Pizza: Two Stories in Mechanistic Explanation"
        " of Neural Networks, arXiv 2306.17844"
    ),
    "NA": (
        "Nanda et al., Progress measures for grokking via mechanistic interpretability,"
        " arXiv 2301.05217"
    ),
}
"""Titles of papers, by the abbreviations used in help texts."""

_PLACEHOLDERS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}

REGISTRY = ConstructorRegistry()
"""Registry that makes tyro read dataclasses of options as this module describes."""


@functools.cache
def field_descriptions(options: type) -> dict[str, str]:
    """The string below each field of a dataclass and of its base classes, read from
    their source, on one line."""
    descriptions = {}
    for item in reversed(options.__mro__):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(item))).body
        except (
            OSError,
            TypeError,
            SyntaxError,
        ):  # no source: built in, or created at run time
            continue
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    descriptions[name] = " ".join(words.split())
    return descriptions


def docstring_summary(owner: Any) -> str:
    """The docstring of a class up to its first section (Parameters, Raises, Examples,
    ...)."""
    paragraphs = inspect.cleandoc(owner.__doc__ or "").split("\n\n")
    return "\n\n".join(
        itertools.takewhile(lambda text: "\n---" not in text, paragraphs)
    )


def command_description(options: type) -> str:
    """The docstring of a command's options, and the titles of the papers that its help
    texts abbreviate."""
    paragraphs = [
        " ".join(text.split()) for text in docstring_summary(options).split("\n\n")
    ]
    texts = list(paragraphs)
    for option in _nested_options(options):
        texts += [option.__doc__ or "", *field_descriptions(option).values()]
    papers = [
        f"{name}: {title}."
        for name, title in PAPERS.items()
        if re.search(rf"\b{name}\b", " ".join(texts))
    ]
    columns = shutil.get_terminal_size().columns
    wrap = textwrap.TextWrapper(
        columns, subsequent_indent=" "
    )  # tyro joins unindented lines
    return "\n\n".join(map(wrap.fill, [*paragraphs, *papers]))


def option_kinds(options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of a command's options and of its positional arguments, by name: the
    annotated name, if there is one, or the field's."""
    named: dict[str, Any] = {}
    positional: dict[str, Any] = {}
    for option in _nested_options(options):
        for field, kind, extras in _fields(option):
            if tyro.conf.Suppress not in extras and not list(_nested_options(kind)):
                names = [extra.name for extra in extras if getattr(extra, "name", None)]
                kinds = positional if tyro.conf.Positional in extras else named
                kinds[[*names, field.name][0]] = kind
    return named, positional


def subcommand_options(options: type, word: str) -> type:
    """The options of the subcommand with this name; all options if there is none."""
    for _, kind, _ in _fields(options):
        for item in get_args(kind):
            extras = getattr(item, "__metadata__", ())
            if any(getattr(extra, "name", None) == word for extra in extras):
                return get_args(item)[0]
    return options


def _nested_options(kind: Any) -> Iterator[type]:
    """A dataclass of options and the dataclasses nested in it, including
    subcommands."""
    if get_origin(kind) is Annotated:
        yield from _nested_options(get_args(kind)[0])
    elif is_union(kind):
        for argument in get_args(kind):
            yield from _nested_options(argument)
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
        for field, inner, _ in _fields(kind):
            factory = getattr(field.default_factory, "func", field.default_factory)
            narrower = isinstance(factory, type) and isinstance(inner, type)
            yield from _nested_options(factory if narrower else inner)


def _fields(options: type) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """Each field of a dataclass, with its type and the metadata of its annotation."""
    hints = get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        kind = hints[field.name]
        extras = ()
        if get_origin(kind) is Annotated:
            kind, extras = kind.__origin__, kind.__metadata__
        if isinstance(kind, types.UnionType):
            kind = Union[get_args(kind)]  # noqa: UP007 - tyro reads this form without importing typeguard
        yield field, kind, extras


# -------------------------------------------------------------------------- tyro's rules


@REGISTRY.primitive_rule
def _law_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """The specification of a law of forces: one argument."""
    if info.type != tuple[Force, ...]:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="LAW",
        instance_from_str=lambda texts: read_law(texts[0]),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda law: [law_json(law) if law else ""],
    )


@REGISTRY.struct_rule
def _dataclass_rule(info: StructTypeInfo) -> StructConstructorSpec | None:
    """The specification from which tyro builds a dataclass of options."""
    if not (isinstance(info.type, type) and dataclasses.is_dataclass(info.type)):
        return None
    fields = []
    descriptions = field_descriptions(info.type)
    for field, kind, extras in _fields(info.type):
        default: Any = tyro.MISSING
        if hasattr(info.default, field.name):
            default = getattr(info.default, field.name)
        elif field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        description = field.metadata.get("help") or descriptions.get(field.name, "")
        text, _, stated_default = description.partition(" Default: ")
        if not text and dataclasses.is_dataclass(kind):
            text = docstring_summary(kind)
        required = default is tyro.MISSING
        hint = functools.partial(
            _default_hint, required, stated_default.removesuffix(".")
        )
        placeholder = _placeholder(field.name, kind, extras, required)
        argument = tyro.conf.arg(metavar=placeholder, help_behavior_hint=hint)
        described: Any = Annotated[(kind, *extras, argument)]
        fields.append(StructFieldSpec(field.name, described, default, text or None))
    return StructConstructorSpec(info.type, tuple(fields))


def _default_hint(required: bool, stated_default: str, default: str) -> str:
    """The text in parentheses after the help text of an option."""
    if required:
        return "(required)"
    hint = stated_default if default in ("", "''", "None") else default
    return f"(default: {hint})" if hint else ""


def _placeholder(
    name: str, kind: Any, extras: tuple[Any, ...], required: bool
) -> str | None:
    """The placeholder for the value of an option; None means the default of tyro."""
    if given := [extra.metavar for extra in extras if getattr(extra, "metavar", None)]:
        return given[0]
    if tyro.conf.Positional in extras:
        word = name.upper().replace("_", "-")
        words = f"{word} ..." if get_origin(kind) is tuple else word
        return words if required else f"[{words}]"
    if not is_union(kind) or type(None) not in get_args(kind):
        return None
    kinds = [argument for argument in get_args(kind) if argument is not type(None)]
    return "|".join(
        _PLACEHOLDERS.get(item) or _compound_placeholder(item) for item in kinds
    )


def _compound_placeholder(kind: Any) -> str:
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, arguments)) + "}"
    words = [_PLACEHOLDERS[item] for item in arguments if item is not Ellipsis]
    if Ellipsis in arguments:
        return f"{words[0]} [{words[0]} ...]"
    return " ".join(words)


def is_union(kind: Any) -> bool:
    """Whether a type is a union, such as that of an optional value."""
    return get_origin(kind) in (Union, types.UnionType)
