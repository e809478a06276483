"""Laws from files: forces as JSON (.json), or a result of `analysis.pair_law` (.nc)."""

from pathlib import Path

from dynamics.errors import SettingsError
from dynamics.folders import check_plain_file
from dynamics.forces import Force, law_from_json

LAW_ATTRIBUTE = "law_json"
"""Attribute of a dataset that has a law."""


def read_law(text: str) -> tuple[Force, ...]:
    """Read the forces of a law.

    Parameters
    ----------
    text : str
        Path of a file with forces as JSON (.json) or of a result of
        ``analysis.pair_law`` (.nc); or the JSON itself, a list of the fields of
        `dynamics.forces.Force`. An empty text is no law.

    Returns
    -------
    tuple of Force
        What ``ParticleSettings(law=...)`` takes.

    Raises
    ------
    SettingsError
        If there is no such file, or it has no law.

    Examples
    --------
    >>> from dynamics.law_files import read_law
    >>> text = '[{"name": "far", "pairs": "all", "along": "difference", "strength": "-r"}]'
    >>> read_law(text)[0].strength
    '-r'
    """
    if not text.strip():
        return ()
    if text.lstrip().startswith("["):
        return _some_forces(text, "[]")
    path = Path(text)
    if path.suffix not in (".nc", ".json"):
        raise SettingsError("law", text, "a file (.nc, .json), or forces as JSON")
    try:
        check_plain_file(path)
        is_json = path.suffix == ".json"
        json_text = path.read_text("utf-8-sig") if is_json else _law_of_result(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        allowed = "a file with a law that can be read"
        raise SettingsError("law", f"{text} ({reason})", allowed) from None
    return _some_forces(json_text, text)


def _some_forces(json_text: str, name: str) -> tuple[Force, ...]:
    """The law that JSON has. Raises SettingsError if it has no force."""
    law = law_from_json(json_text)
    if not law:
        raise SettingsError("law", f"no force in {name}", "one force or more")
    return law


def _law_of_result(path: Path) -> str:
    """The law in a result of `analysis.pair_law`. Raises SettingsError, OSError."""
    import netCDF4

    with netCDF4.Dataset(path) as dataset:
        if LAW_ATTRIBUTE not in dataset.ncattrs():
            raise SettingsError(
                "law", str(path), "a result of analysis.pair_law, which has a law"
            )
        return str(dataset.getncattr(LAW_ATTRIBUTE))
