"""The rows that CA ("Clustering and Alignment: Understanding the Training Dynamics in
Modular Addition", arXiv:2408.09414) prints in tables 1 and 2, of 100 runs each.

"±" and brackets are 95% intervals; accuracies are percentages. All columns but those on
circles are of the runs that are not circles."""

from typing import NamedTuple


class PrintedRow(NamedTuple):
    """A row of table 1, or of table 2, which has no accuracies."""

    circles: int
    imperfections: str
    circle_accuracy_percent: str = ""
    """Empty without circles"""
    other_accuracy_percent: str = ""
    correlation: str = ""
    """Of imperfections and accuracy"""


TABLE_1 = {
    0.0: PrintedRow(0, "102.2 ± 6.1", "", "18.2", "-0.92 [-0.95, -0.88]"),
    0.3: PrintedRow(1, "72.7 ± 6.6", "77.4", "34.8", "-0.90 [-0.93, -0.85]"),
    0.6: PrintedRow(12, "39.6 ± 4.0", "65.9", "51.6", "-0.84 [-0.89, -0.77]"),
    1.0: PrintedRow(18, "31.6 ± 4.0", "60.4", "46.7", "-0.64 [-0.75, -0.49]"),
}
"""Networks by weight decay."""
TABLE_2 = {
    0.5: PrintedRow(0, "35.5 ± 3.7"),
    1.0: PrintedRow(17, "36.3 ± 4.8"),
    2.0: PrintedRow(56, "42.9 ± 10.1"),
}
"""Particles by alignment constant f_a."""
