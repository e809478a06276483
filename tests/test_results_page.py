"""The main results on README, the home page and the page of results are those of the
stored measurements."""

from analysis.reproduction.report.headlines import HEADLINES
from docs.write_results import DOCS, updated_pages


def test_results_are_those_of_the_evidence():
    for path, text in updated_pages().items():
        written = path.read_text(encoding="utf-8")
        assert written == text, f"{path.name}: run python docs/write_results.py"
        assert all(headline.title in written for headline in HEADLINES)


def test_pictures_exist():
    for headline in HEADLINES:
        assert (DOCS / headline.picture).is_file()
