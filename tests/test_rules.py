"""Rules in general: what holds is proved, what does not hold is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import optimus
from optimus.rule import Rule
from tests.truth import no_term_is_taken_for_a_truth_value  # noqa: F401
from verify.proof import prove_general
from verify.prover.rules import prove_rule
from verify.subject import PatternSubject
from verify.verdict import Proved, Unknown, Vacuous, Verdict, explain


def prove(statement: Callable[[Rule], None]) -> Verdict:
    return prove_rule(statement, timeout_s=10, second_solver=True)


@pytest.mark.parametrize("pattern", [p for p in optimus.patterns().values() if PatternSubject(p).general], ids=str)
def test_the_rule_of_a_pattern_is_proved_by_both_solvers(pattern: optimus.Pattern):
    verdict = prove_general(PatternSubject(pattern))
    assert isinstance(verdict, Proved), explain(verdict)
    assert verdict.confirmed == verdict.queries


# --------------------------------------------------------------------------------------------------- rules that do not hold


def pieces(rule, least=1):
    count = rule.number("count", least)
    sections = rule.sections("section", count)
    x = rule.tensor("x", rule.number("left"), sections.total, rule.number("right"))
    return count, sections, x, rule.split(x, 1, sections)


def another_tensor(rule):
    _, _, x, parts = pieces(rule)
    rule.equal("all", rule.cat(parts, 1), rule.tensor("y", *x.axes))


def one_place_off(rule):
    _, sections, _, parts = pieces(rule, 2)
    rule.suppose(sections.size(0) == sections.size(1))
    rule.equal("the first", parts.between(0, 1), parts.between(1, 1))


def all_but_one(rule):
    count, _, x, parts = pieces(rule, 2)
    rule.equal("all", rule.cat(parts.between(1, count - 1), 1), x)


def from_the_first_on(rule):
    count, sections, x, parts = pieces(rule)
    first, length = rule.number("first"), rule.number("length", 1)
    rule.suppose(first + length <= count)
    run = sections.between(first, length)
    rule.equal("a run", rule.cat(parts.between(first, length), 1), rule.narrow(x, 1, 0, run.total))


def beyond_the_last(rule):
    count, _, _, parts = pieces(rule)
    rule.equal("a run", rule.cat(parts.between(1, count), 1), rule.cat(parts.between(1, count), 1))


def unequal_sections_unflattened(rule):
    _, sections, x, parts = pieces(rule)
    rule.equal("stacked", rule.stack(parts, 1), rule.unflatten(x, 1, sections))


def swapped_not_moved(rule):
    count = rule.number("count", 1)
    x = rule.tensor("x", count, rule.number("a"), rule.number("b"))
    rule.equal("stacked", rule.stack(rule.unbind(x, 0), 2), rule.move(rule.move(x, 0, 2), 0, 1))


def sizes_that_do_not_add_up(rule):
    count, sections, _, _ = pieces(rule)
    rule.computed(count, lambda k: sections.size(k) + 1, sections.offset)
    rule.equal("nothing", rule.tensor("y", count), rule.tensor("y", count))


def offsets_that_do_not_start_at_zero(rule):
    count, sections, _, _ = pieces(rule)
    rule.computed(count, sections.size, lambda k: sections.offset(k) + 1)
    rule.equal("nothing", rule.tensor("y", count), rule.tensor("y", count))


def weights_not_transposed(rule):
    count, rows, n = rule.number("count", 1), rule.number("rows"), rule.number("n")
    x, w = rule.family("x", count, rows, n), rule.family("w", count, n, n)
    joint = rule.contract("gmk,gkn->gmn", rule.stack(x, 0), rule.stack(w, 0))
    rule.equal("results", rule.each(lambda x, w: rule.contract("mk,nk->mn", x, w), x, w), rule.unbind(joint, 0))


def summed_over_the_group(rule):
    count, rows, n = rule.number("count", 1), rule.number("rows"), rule.number("n")
    x = rule.family("x", count, rows, n)
    rule.equal("sums", rule.contract("gmk->m", rule.stack(x, 0)), rule.contract("mk->m", x[0]))


def another_function(rule):
    x = rule.family("x", rule.number("count", 1), rule.number("n"))
    rule.equal("results", rule.each(lambda x: rule.apply("tanh", x), x), rule.unbind(rule.apply("sin", rule.stack(x, 0)), 0))


def operands_exchanged(rule):
    x, y = rule.tensor("x", rule.number("n")), rule.tensor("y", rule.number("n"))
    rule.equal("the sum", rule.apply("add", x, y), rule.apply("add", y, x))


def products(rule):
    rows, inner, columns, more = (rule.number(name) for name in ("rows", "inner", "columns", "more"))
    return rule.tensor("x", rows, inner), rule.tensor("y", inner, columns), rule.tensor("z", inner + more, columns), more


def one_factor_padded_alone(rule):
    x, _, z, more = products(rule)
    rule.equal("the product", rule.contract("mk,kn->mn", x, rule.narrow(z, 0, 0, x.axes[1])), rule.contract("mk,kn->mn", rule.pad(x, 1, more), z))


def the_padding_cut_out(rule):
    x, y, _, more = products(rule)
    padded = rule.contract("mk,kn->mn", rule.pad(x, 0, more), y)
    rule.equal("the product", rule.contract("mk,kn->mn", x, y), rule.narrow(padded, 0, more, x.axes[0]))


def zeros_left_in(rule):
    x, _, _, more = products(rule)
    rule.suppose(more > 0)
    rule.equal("the tensor", rule.narrow(rule.pad(x, 0, more), 0, more, x.axes[0]), x)


def fewer_than_no_zeros(rule):
    x, _, _, _ = products(rule)
    rule.equal("the tensor", rule.pad(x, 0, 0 - x.axes[0]), rule.pad(x, 0, 0 - x.axes[0]))


def tiled(rule, *, behind_others=True, across_first=True):
    """A product is what is stored of its tiles, which stand in a list behind others."""
    across, down, others = (rule.number(name, 1) for name in ("across", "down", "others"))
    rows, columns = rule.sections("row", down, 2), rule.sections("column", across, 2)
    x, y = rule.tensor("x", rows.total, rule.number("inner")), rule.tensor("y", columns.total, rule.number("more", 1))
    rule.suppose(x.axes[1] == y.axes[1])
    tiles = rule.contract("imk,jnk->ijmn", rule.unflatten(x, 0, rows), rule.unflatten(y, 0, columns))
    listing = rule.sections("tile", down, across)
    listed = rule.flatten(tiles, 0, listing)
    programs = rule.join(0, rule.tensor("front", others, 2, 2), listed)
    own = rule.narrow(programs, 0, others if behind_others else 0, listing.total)
    if not across_first:
        rule.suppose(down == across)
    blocks = rule.unflatten(own, 0, listing)
    blocks = blocks if across_first else rule.move(blocks, 0, 1)
    stored = rule.flatten(rule.flatten(rule.move(blocks, 2, 1), 0, rows), 1, columns)
    rule.equal("the product", rule.contract("mk,nk->mn", x, y), stored)


def tiles_of_another_problem(rule):
    tiled(rule, behind_others=False)


def tiles_in_another_order(rule):
    tiled(rule, across_first=False)


def another_shape(rule):
    n, m = rule.number("n"), rule.number("m")
    x = rule.tensor("x", n, m)
    rule.equal("the same", x, rule.move(x, 0, 1))


def a_tensor_for_several(rule):
    x = rule.tensor("x", rule.number("n"), rule.number("m"))
    rule.equal("slices", rule.unbind(x, 0), x)


WRONG = [
    another_tensor,
    one_place_off,
    all_but_one,
    from_the_first_on,
    beyond_the_last,
    unequal_sections_unflattened,
    swapped_not_moved,
    sizes_that_do_not_add_up,
    offsets_that_do_not_start_at_zero,
    weights_not_transposed,
    summed_over_the_group,
    another_function,
    operands_exchanged,
    one_factor_padded_alone,
    the_padding_cut_out,
    zeros_left_in,
    fewer_than_no_zeros,
    tiles_of_another_problem,
    tiles_in_another_order,
    another_shape,
    a_tensor_for_several,
]


@pytest.mark.parametrize("statement", WRONG, ids=lambda f: f.__name__)
def test_what_does_not_hold_is_not_proved(statement: Callable[[Rule], None]):
    verdict = prove(statement)
    assert isinstance(verdict, Unknown), explain(verdict)


def test_padded_sums_cost_the_sign_of_a_zero():
    def statement(rule):
        x, y, _, more = products(rule)
        factors = rule.pad(x, 1, more), rule.pad(y, 0, more)
        rule.equal("the product", rule.contract("mk,kn->mn", x, y), rule.contract("mk,kn->mn", *factors))

    verdict = prove(statement)
    assert isinstance(verdict, Proved)
    assert verdict.claim == "E2"


def test_tiles_in_a_list_make_up_a_product():
    verdict = prove(tiled)
    assert isinstance(verdict, Proved), explain(verdict)


def test_the_numbers_for_which_it_fails_are_given():
    verdict = prove(all_but_one)
    assert explain(verdict).startswith("unknown: the rule does not hold: not always all: the same shape, such as for count = 2")


# ------------------------------------------------------------------------------------------------------- saying nothing


def test_a_rule_that_states_nothing_is_vacuous():
    assert isinstance(prove(lambda rule: rule.suppose(rule.number("n") > 2)), Vacuous)


def test_a_rule_about_no_numbers_is_vacuous():
    def statement(rule):
        n = rule.number("n")
        rule.suppose(n > 2, n < 2)
        rule.equal("anything", rule.tensor("x", n), rule.tensor("y", n))

    assert isinstance(prove(statement), Vacuous)


def test_no_pieces_and_no_elements_are_not_left_out():
    def statement(rule):
        extent = rule.number("extent")
        x, y = rule.tensor("x", extent), rule.tensor("y", extent)
        with rule.somewhere(extent):
            pass
        rule.equal("both", x, y)

    assert isinstance(prove(statement), Unknown)
