"""Steps of a plan that run below the graphs of operators: at the partitioner, and on Inductor's scheduler nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optimus import inductor_ir, quantization
from optimus.journal import Journal
from optimus.plan import Plan

Record = Callable[[Journal], None]


def inductor_patches(plan: Plan, record: Record, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of Inductor that run those steps of ``plan``, behind what ``options``, or else the configuration, has there already.

    Raises ``TypeError`` for a hook that holds something else than Inductor accepts.
    """
    import torch._inductor.config as inductor

    def present(name: str) -> Any:
        return options[name] if name in options else getattr(inductor, name)

    partitioner = quantization.inductor_patches(plan, record, present("custom_partitioner_fn"))
    return partitioner | inductor_ir.inductor_patches(plan, record, present(inductor_ir.HOOK))


def partitioner(compiler: Any, plan: Plan, record: Record) -> quantization.Partitioner | None:
    """What cuts graphs apart for ``compiler``, another than Inductor, if ``plan`` has quantising steps.

    Raises ``ValueError`` where the compiler cannot run the steps of ``plan``.
    """
    scheduled = [p.name for p in inductor_ir.patterns_of(plan)]
    quantising = [p.name for p in quantization.patterns_of(plan)]
    if scheduled or (quantising and compiler != "aot_eager"):
        name = [*scheduled, *quantising][0]
        accepted = "'inductor'" if scheduled else "'inductor' and 'aot_eager'"
        raise ValueError(f"backend optimus: {name} cannot run through compiler {compiler!r}; accepted are {accepted}")
    return quantization.Partitioner(plan, record, expanded=True) if quantising else None
