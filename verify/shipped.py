"""Passes that are not ours as subjects: those that PyTorch ships for Inductor, by ``pre_grad_fusion_options`` and ``post_grad_fusion_options``.

Nothing is proved of them. A hunt on graphs looks for programs on which one is wrong, and only what ``torch.compile`` shows too, with the pass
and not without it, is held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from optimus.journal import Journal
from optimus.pattern import IR, Case, Exactness
from optimus.plan import patterns
from optimus.rule import Rule
from verify.cli import SHIPPED
from verify.subject import one_rewrite

NONE: dict[str, Any] = {"pre_grad_fusion_options": {}, "post_grad_fusion_options": {}}
"""Settings of Inductor that switch on no pass that has an option."""

GROUPED = {"min_fuse_set_size": 2}
"""Options of passes that join operators: two are enough, so that what is found is small."""

NO_GRAPH_PASS = frozenset({"shape_padding_multiplier"})
"""Options that stand among those of passes, and are read elsewhere."""


def shipped() -> dict[str, IR]:
    """The passes that this PyTorch has, by the name of their option, and the graphs that they are given."""
    _loaded()
    from torch._inductor.fx_passes.group_batch_fusion import POST_GRAD_FUSIONS, PRE_GRAD_FUSIONS
    from torch._inductor.fx_passes.split_cat import POST_GRAD_PATTERNS, PRE_GRAD_PATTERNS

    found = dict.fromkeys((*PRE_GRAD_FUSIONS, *PRE_GRAD_PATTERNS), IR.TORCH) | dict.fromkeys((*POST_GRAD_FUSIONS, *POST_GRAD_PATTERNS), IR.ATEN)
    return {name: level for name, level in found.items() if name not in NO_GRAPH_PASS}


def subject(name: str) -> ShippedPass:
    """The pass called ``name``, with or without ``inductor:`` before it. Raises ``ValueError`` where this PyTorch has none."""
    option = name.removeprefix(SHIPPED)
    known = shipped()
    if option not in known:
        raise ValueError(f"{SHIPPED}{option}: PyTorch {torch.__version__} ships no pass of this name; it has {', '.join(known)}")
    return ShippedPass(option, known[option])


@dataclass(frozen=True)
class ShippedPass:
    """One pass of PyTorch, run alone on a graph, as Inductor runs it. ``option``: its name among the options."""

    option: str
    ir: IR

    @property
    def name(self) -> str:
        """See :class:`verify.subject.Subject`."""
        return SHIPPED + self.option

    @property
    def exactness(self) -> Exactness:
        """See :class:`verify.subject.Subject`. What our pattern of the same name claims; products may be added up in another order."""
        counterpart = patterns().get(self.option)
        return Exactness.REASSOCIATES if counterpart is None else counterpart.exactness

    @property
    def cases(self) -> tuple[Case, ...]:
        """See :class:`verify.subject.Subject`. Programs of the operators it reads: what our pattern of the same name fires on and declines."""
        counterpart = patterns().get(self.option)
        if counterpart is not None:
            return (*counterpart.cases, *counterpart.declines)
        return tuple(pattern.cases[0] for pattern in patterns().values() if pattern.ir is self.ir)

    @property
    def declines(self) -> tuple[Case, ...]:
        """See :class:`verify.subject.Subject`. It makes no promise of any."""
        return ()

    @property
    def general(self) -> Callable[[Rule], None] | None:
        """See :class:`verify.subject.Subject`."""
        return None

    @property
    def configured(self) -> dict[str, Any]:
        """The settings of Inductor that switch this pass on, and no other that has an option."""
        option = "pre_grad_fusion_options" if self.ir is IR.TORCH else "post_grad_fusion_options"
        return NONE | {option: {self.option: dict(self._options())}}

    def compiler(self) -> Callable[..., Any]:
        """A backend of ``torch.compile``: Inductor with this pass and no other that has an option."""
        return with_settings(self.configured)

    def _options(self) -> Mapping[str, Any]:
        return GROUPED if self.option.startswith("batch_") else {}

    def apply(self, gm: GraphModule) -> Journal:
        """See :class:`verify.subject.Subject`. A change counts as one rewrite of everything."""
        _loaded()

        def change() -> bool:
            before = str(gm.graph)
            with torch._inductor.config.patch(self.configured), _fake_mode(gm):
                self._run(gm)
            return str(gm.graph) != before

        return one_rewrite(self.name, gm, change)

    def _run(self, gm: GraphModule) -> None:
        from torch._inductor.fx_passes.group_batch_fusion import POST_GRAD_FUSIONS, PRE_GRAD_FUSIONS, group_batch_fusion_passes
        from torch._inductor.fx_passes.split_cat import POST_GRAD_PATTERNS, PRE_GRAD_PATTERNS
        from torch._inductor.pattern_matcher import stable_topological_sort

        early = self.ir is IR.TORCH
        if self.option in (PRE_GRAD_FUSIONS if early else POST_GRAD_FUSIONS):
            group_batch_fusion_passes(gm.graph, pre_grad=early)
        else:
            (PRE_GRAD_PATTERNS if early else POST_GRAD_PATTERNS)[self.option].apply(gm.graph)
        stable_topological_sort(gm.graph)


def with_settings(settings: dict[str, Any]) -> Callable[..., Any]:
    """A backend of ``torch.compile``: Inductor with these settings, and without its caches."""

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(gm, example_inputs, config_patches=settings | {"force_disable_caches": True})  # type: ignore[arg-type, return-value]

    return backend


def _loaded() -> None:
    """Have PyTorch register its patterns."""
    from torch._inductor.fx_passes import post_grad, pre_grad

    pre_grad.lazy_init()
    post_grad.lazy_init()


@contextmanager
def _fake_mode(gm: GraphModule) -> Iterator[None]:
    """The mode of the graph's fakes, as Inductor has it set while its passes run."""
    from torch._guards import detect_fake_mode
    from torch._inductor.virtualized import V

    fakes = [node.meta.get("val", node.meta.get("example_value")) for node in gm.graph.nodes]
    mode = detect_fake_mode([f for f in fakes if f is not None])
    if mode is None:
        yield
        return
    with V.set_fake_mode(mode):
        yield
