"""Laws from files: forces as JSON (.json), or a result of `analysis.pair_law` (.nc)."""

from pathlib import Path

from dynamics.errors import SettingsError
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
        return law_from_json(text)
    path = Path(text)
    if path.suffix not in (".nc", ".json"):
        raise SettingsError("law", text, "a file (.nc, .json), or forces as JSON")
    try:
        json_text = path.read_text() if path.suffix == ".json" else _law_of_result(path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("law", text, f"a file with a law ({error})") from None
    return law_from_json(json_text)


def _law_of_result(path: Path) -> str:
    """The law in a result of `analysis.pair_law`. Raises SettingsError, OSError."""
    import netCDF4

    with netCDF4.Dataset(path) as dataset:
        if LAW_ATTRIBUTE not in dataset.ncattrs():
            raise SettingsError(
                "law", str(path), "a result of analysis.pair_law, which has a law"
            )
        return str(dataset.getncattr(LAW_ATTRIBUTE))
