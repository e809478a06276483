"""Texts of expressions of r for tests."""

from hypothesis import strategies as st

UNEVEN = "[0.25, 0.5, 1.125, 1.25, 2.5, 2.75]"
EVEN = "[0, 0.5, 1, 1.5, 2, 2.5]"
VALUES = "[1, -0.5, 0.75, 3, 2, 2]"
EXAMPLES = (
    "1",
    "r",
    "-1",
    "1/r",
    "1/r**3",
    "r > 0",
    "-(r > 0)",
    "(r < 1)*(r >= 0.5)",
    "exp(-r)/r",
    "sqrt(r) - r**-1.5",
    "r**0.3 + r**pi",
    "r**-100 + r**-101",
    "abs(r - 1)",
    "min(r, 1/r) + max(r, 2)",
    "where(r < 1, log(r), r**r)",
    f"interp(r, {UNEVEN}, {VALUES})",
    f"interp(r**2, {EVEN}, {VALUES})",
)

_numbers = st.sampled_from(
    ["0", "1", "2", "3", "0.5", "1.5", "1e-3", "pi", "0.1", "100"]
)
_leaves = st.one_of(st.just("r"), st.just("r"), _numbers)


def _operations(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = ["+", "-", "*", "/", "<", "<=", ">", ">="]
    exponents = ["2", "-1", "3", "0.5", "-1.5", "0.3", "-(1/3)", "65", "(r)"]
    return st.one_of(
        st.builds("({}) {} ({})".format, inner, st.sampled_from(binary), inner),
        st.builds("({}){}({})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("({})**{}".format, inner, st.sampled_from(exponents)),
        st.builds("-({})".format, inner),
        st.builds(
            "{}({})".format, st.sampled_from(["exp", "log", "sqrt", "abs"]), inner
        ),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("where({}, {}, {})".format, inner, inner, inner),
        st.builds(
            f"interp({{}}, {{}}, {VALUES})".format,
            inner,
            st.sampled_from([EVEN, UNEVEN]),
        ),
    )


texts = st.recursive(_leaves, _operations, max_leaves=10)
"""Random expressions."""
