"""How claims are put to the test: what a claim is, the rules that judge it, studies, their evidence, and the report."""
