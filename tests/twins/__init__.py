"""Plain float64 versions of the analyses, written from their documentation pages.

Nothing here imports the functions that it checks but in tests: loops, NumPy and SciPy.
`docs/guides/twins.md` lists what is compared, and on which inputs.
"""
