"""VC's clustering heads: their invariances, labels and sums, circuits made by hand, and how they form and rest."""
