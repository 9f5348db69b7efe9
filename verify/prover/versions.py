"""The versions of the solvers."""

from __future__ import annotations

import functools


@functools.cache
def solver_versions() -> dict[str, str]:
    """The version of Z3, and that of cvc5 if it is installed."""
    import z3

    found = {"z3": z3.get_version_string()}
    try:
        import cvc5
    except ImportError:
        return found
    return {**found, "cvc5": cvc5.__version__}
