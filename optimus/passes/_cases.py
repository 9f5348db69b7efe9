"""Families of cases: programs on which every pattern that joins element-wise operators must fire or decline, at whichever level it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from optimus.pattern import Case, declines, fires

Function = Callable[..., Any]


class Family:
    """Cases by name; ``family("four", "chained")`` gives some of them, in this order."""

    def __init__(self, *cases: Case) -> None:
        self.cases = {c.name: c for c in cases}

    def __call__(self, *names: str) -> tuple[Case, ...]:
        """The cases called ``names``."""
        return tuple(self.cases[n] for n in names)


def of_one_tensor(function: Function) -> Family:
    """Cases of ``function``, a function of ``torch`` and a method of tensors of the same name."""
    method = function.__name__

    @fires(*["n, k"] * 5)
    def functions(*xs: Any) -> Any:
        return torch.cat([function(x) for x in xs])

    @fires(*["n, k"] * 6)
    def spellings(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        one, two, three, four = (getattr(x, method)() for x in (a, d, e, f))
        return one + function(b) * function(input=c) - two + three * four

    @fires("5, n, k")
    def slices(x: Any) -> Any:
        return torch.stack([function(s) for s in torch.unbind(x)])

    @fires(*["n"] * 5)
    def two_layers(*xs: Any) -> Any:
        once = [function(x) * 2 for x in xs]
        return sum(function(x) for x in once)

    @declines("too_few", *["n, k"] * 4)
    def four(*xs: Any) -> Any:
        return torch.cat([function(x) for x in xs])

    @declines("too_few", "n, k")
    def chained(x: Any) -> Any:
        for _ in range(5):
            x = function(x)
        return x.cos()

    @declines("law:aliasing", *["n, k"] * 5)
    def returned(*xs: Any) -> Any:
        return [function(x) for x in xs]

    @declines("too_few", *["n, k"] * 4, "m, k")
    def another_shape(*xs: Any) -> Any:
        return torch.cat([function(x) for x in xs])

    @declines("too_few", *["n, k"] * 4, "n, k: bfloat16")
    def another_dtype(*xs: Any) -> Any:
        return torch.cat([function(x) for x in xs])

    @declines("row_major", *["n, k"] * 5)
    def transposed(*xs: Any) -> Any:
        return torch.stack([function(x.t()) for x in xs])

    return Family(functions, spellings, slices, two_layers, four, chained, returned, another_shape, another_dtype, transposed)


def of_two_tensors(function: Function, operator: Function) -> Family:
    """Cases of ``function``, one of ``torch`` and a method of tensors of the same name, which Python also writes as ``operator``."""
    method = function.__name__

    @fires(*["n, k"] * 10)
    def pairs(*t: Any) -> Any:
        return torch.cat([function(x, y) for x, y in zip(t[:5], t[5:], strict=True)])

    @fires(*["n, k"] * 6)
    def spellings(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        written = [operator(x, y) for x, y in ((a, b), (f, f), (a, a), (b, b), (c, c), (d, a), (e, b))]
        return torch.stack([*written, getattr(b, method)(c), function(input=c, other=d), function(e, e)])

    @fires(*["n"] * 5, *["n: int64"] * 5)
    def with_integers(*t: Any) -> Any:
        return torch.cat([operator(x, y) for x, y in zip(t[:5], t[5:], strict=True)])

    @fires(*["n: int64"] * 10, grad=False)
    def scaled(*t: Any) -> Any:
        return torch.cat([function(x, y, alpha=3) for x, y in zip(t[:5], t[5:], strict=True)])

    @declines("too_few", *["n, k"] * 4)
    def four(*xs: Any) -> Any:
        return torch.cat([operator(x, xs[0]) for x in xs])

    @declines("too_few", "n, k", "n, k")
    def chained(x: Any, y: Any) -> Any:
        for _ in range(5):
            x = operator(x, y)
        return x.cos()

    @declines("law:aliasing", *["n, k"] * 5)
    def returned(*xs: Any) -> Any:
        return [operator(x, xs[0]) for x in xs]

    @declines("too_few", *["n, k"] * 5, *["n, k"] * 3, *["n, k: bfloat16"] * 2)
    def another_dtype(*t: Any) -> Any:
        return torch.cat([operator(x, y) for x, y in zip(t[:5], t[5:], strict=True)])

    @declines("too_few", *["n, k"] * 5, *["n, k: bfloat16"] * 5)
    def either_order(*t: Any) -> Any:
        return torch.cat([operator(*pair) for pair in (*zip(t[:3], t[5:8], strict=True), *zip(t[8:], t[3:5], strict=True))])

    @declines("row_major", *["n, k"] * 5)
    def transposed(*xs: Any) -> Any:
        return torch.stack([operator(x.t(), xs[0].t()) for x in xs])

    @declines("same_shape", *["n, k"] * 5, *["k"] * 5)
    def broadcast(*t: Any) -> Any:
        return torch.stack([operator(x, y) for x, y in zip(t[:5], t[5:], strict=True)])

    @declines("plain_scale", *["n, k"] * 10)
    def scaled_and_rounded(*t: Any) -> Any:
        return torch.cat([function(x, y, alpha=3) for x, y in zip(t[:5], t[5:], strict=True)])

    return Family(
        pairs, spellings, with_integers, scaled, four, chained, returned, another_dtype, either_order, transposed, broadcast, scaled_and_rounded
    )
