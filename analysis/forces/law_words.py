"""A law of forces in words, for tables and figures of analyses that compare a network
with it."""

from __future__ import annotations

from typing import NamedTuple

import xarray as xr

from analysis.output.counts import number_in_words
from dynamics.forces import CA
from dynamics.settings import ParticleSettings


class LawWords(NamedTuple):
    """Words for a law and its fields; by default for CA's."""

    name: str = "law of CA"
    short_name: str = "CA"
    force_count: int = len(CA)
    """Number of forces, which is that of fields."""

    @classmethod
    def of(cls, law: ParticleSettings) -> LawWords:
        """The words for a law: CA's, or one with other forces or strengths."""
        if law.has_ca_strengths:
            return cls()
        return cls("given law", "law", len(law.forces))

    @property
    def number(self) -> str:
        """The number of fields in words, such as "four"."""
        return number_in_words(self.force_count)

    @property
    def fields(self) -> str:
        """The number of fields with the noun, such as "four fields"."""
        return f"{self.number} {self.field_noun}"

    @property
    def field_noun(self) -> str:
        """The word "field" or "fields"."""
        return "field" if self.force_count == 1 else "fields"

    @property
    def attributes(self) -> dict[str, str | int]:
        """Attributes of a result from which `law_words` reads them."""
        return {f"law_{name}": value for name, value in self._asdict().items()}


def law_words(result: xr.Dataset) -> LawWords:
    """The words for the law of a result; those for CA's if it names none."""
    values = LawWords().attributes | result.attrs
    name, short_name, force_count = (values[key] for key in LawWords().attributes)
    return LawWords(str(name), str(short_name), int(force_count))
