"""Sections of one size, stated in general for the patterns that write out their sizes."""

from __future__ import annotations

from optimus.rule import Number, Rule


def written_out(rule: Rule) -> Number:
    """State that sections of one size, the last as long as what is left, are those of their sizes written out; returns how many there are."""
    count, size, extent = rule.number("count", 1), rule.number("size", 1), rule.number("extent")
    multiples = rule.sections("multiple", count, size)
    rule.suppose(multiples.offset(count - 1) < extent, extent <= multiples.total)
    x = rule.tensor("x", rule.number("left"), extent, rule.number("right"))
    written = rule.computed(
        count,
        lambda k: rule.choose(k == count - 1, extent - multiples.offset(count - 1), size),
        lambda k: rule.choose(k >= count, extent, multiples.offset(k)),
    )
    full, rest = rule.split(x, 1, written), extent - multiples.offset(count - 1)
    by_size = rule.sequence(count - 1, lambda k: rule.narrow(x, 1, multiples.offset(k), size))
    rule.equal("full sections", by_size, full.between(0, count - 1))
    rule.equal("the remainder", rule.narrow(x, 1, multiples.offset(count - 1), rest), full[count - 1])
    return count
