"""The plug-in for ``torch.compile``: a backend, a compile function, and hooks for users who keep Inductor as backend."""

from __future__ import annotations

import contextlib
import copy
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, GraphModule

from optimus import below
from optimus.engine import Engine, resolve_validator
from optimus.journal import Journal
from optimus.limit import cache_key, current
from optimus.numeric_check import NumericCheck, Watched
from optimus.packing import Packing
from optimus.plan import Plan, default_plan, lookup
from optimus.postgrad import HOOK, PostGradPass, aot_eager, behind_autograd
from optimus.rewriter import Validator

ENVIRONMENT = "OPTIMUS_PATTERNS"
"""``-name`` switches a pattern off, ``+name`` on; names without sign, separated by commas: exactly these; ``none``: nothing."""

OWN = "plan, enable, disable, validate, pack, numeric_check, compiler"
"""The options of this backend."""

Compiler = str | Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]

_journals: deque[Journal] = deque(maxlen=1000)


def journals() -> tuple[Journal, ...]:
    """The journals of the graphs compiled in this process, oldest first (the last 1000 at most)."""
    return tuple(_journals)


def _note(journal: Journal) -> None:
    """Keep a journal, and warn of a pattern that raised: results are right without it, but somebody should know."""
    _journals.append(journal)
    for pattern, what in dict.fromkeys((d.pattern, d.detail) for d in journal.declined if d.reason == "error"):
        warnings.warn(f"optimus: {pattern} raised {what}; what it was to rewrite is left as it was", RuntimeWarning, stacklevel=2)


def clear_journals() -> None:
    """Forget what :func:`journals` holds."""
    _journals.clear()


def compile(
    model: Any,
    *,
    plan: Plan | None = None,
    validate: Validator | str | None = None,
    pack: bool | None = None,
    numeric_check: NumericCheck | Mapping[str, Any] | None = None,
    **torch_compile_kwargs: Any,
) -> Any:
    """``torch.compile(model, backend="optimus")`` with a plan, a validator and a numeric check; other arguments go to ``torch.compile``.

    ``pack``: see :mod:`optimus.packing`.
    Raises ``TypeError`` if ``backend`` is given: to keep another backend, use ``options={"compiler": name}``.
    """
    if "backend" in torch_compile_kwargs:
        given = torch_compile_kwargs["backend"]
        raise TypeError(f"optimus.compile: backend={given!r} cannot be given; accepted is options={{'compiler': {given!r}}}")
    options = dict(torch_compile_kwargs.pop("options", None) or {})
    own = (("plan", plan), ("validate", validate), ("pack", pack), ("numeric_check", numeric_check))
    options.update({k: v for k, v in own if v is not None})
    if options and torch_compile_kwargs.get("mode") is not None:  # of which torch.compile takes one only
        options["mode"] = torch_compile_kwargs.pop("mode")
    return torch.compile(model, backend=backend, options=options or None, **torch_compile_kwargs)


def backend(
    gm: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The ``torch.compile`` backend called ``optimus``: rewrite the graph, then hand it to ``options["compiler"]``.

    Options: ``plan`` (a :class:`Plan`, its JSON, or a list of steps for ``Plan.of``), ``enable`` and ``disable`` (lists of
    pattern names), ``validate``, ``numeric_check`` (see :class:`NumericCheck`), ``compiler`` (a backend name or a callable; default
    ``"inductor"``), ``pack`` (parameters that are joined on every call move into one buffer, see :mod:`optimus.packing`; default
    False), ``mode`` (as the argument, which ``torch.compile`` takes only without options). Every other option, and ``mode``, is
    Inductor's. Raises ``ValueError`` for what none of them knows.
    """
    given = dict(options or {})
    mode = given.pop("mode", mode)
    plan = effective_plan(given.pop("plan", None), given.pop("enable", ()), given.pop("disable", ()))
    validate = resolve_validator(given.pop("validate", None))
    given_check = given.pop("numeric_check", None)
    compiler: Compiler = given.pop("compiler", "inductor")
    pack = given.pop("pack", False)
    if not isinstance(pack, bool):
        raise TypeError(f"pack={pack!r} is a {type(pack).__name__}; accepted are True and False")

    def finishing(chosen: Plan) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
        return _compiler(compiler, mode, given, chosen, _after_autograd(chosen, validate))

    finish = finishing(plan)
    check, limiter = NumericCheck.of(given_check), current()
    observe = None if limiter is None else limiter.observer()
    original = copy.deepcopy(gm) if check is not None or observe is not None else None
    journal = Engine(gm, plan, validate).run()
    _note(journal)
    number = 0 if limiter is None else limiter.graphs  # those behind autograd are counted next
    compiled = _finished(finish, gm, example_inputs, journal, pack)
    if original is not None and observe is not None:
        compiled = observe(limiter, number, original, plan, validate, compiled)
    if original is not None and check is not None:
        compiled = Watched(check, original, compiled, plan, validate, finishing, lambda: _draws_as_eager(compiler, given))
    return compiled


def _finished(
    finish: Callable[..., Callable[..., Any]], gm: GraphModule, example_inputs: Sequence[Any], journal: Journal, pack: bool
) -> Callable[..., Any]:
    """``gm`` compiled by ``finish``, with packed parameters if ``pack``."""
    packing = Packing.of(gm, example_inputs, journal) if pack else None
    if packing is None:
        return finish(gm, example_inputs)
    packed, taking, inputs = packing
    return packed.call(finish(taking, inputs))


def _draws_as_eager(compiler: Compiler, options: Mapping[str, Any]) -> bool:
    """Whether the compiled graph draws the random numbers that eager draws."""
    import torch._inductor.config as inductor

    return compiler != "inductor" or bool(options.get("fallback_random", inductor.fallback_random))


def effective_plan(plan: Any = None, enable: Sequence[str] = (), disable: Sequence[str] = ()) -> Plan:
    """The plan that a compile uses: ``plan`` (default: the default plan), changed by names, then by the environment.

    Raises ``ValueError`` for an unknown name and ``TypeError`` for something that is no plan.
    """
    enable, disable = _names("enable", enable), _names("disable", disable)
    if plan is None:
        found = default_plan()
    elif isinstance(plan, Plan):
        found = plan
    elif isinstance(plan, str):
        found = Plan.from_json(plan)
    elif isinstance(plan, (list, tuple)):
        found = Plan.of(*plan)
    else:
        raise TypeError(f"plan={plan!r} is a {type(plan).__name__}; accepted are a Plan, its JSON text, and a list of steps")
    return _from_environment(_switch(found, enable, disable), os.environ.get(ENVIRONMENT, ""))


def _names(option: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(isinstance(n, str) for n in given):
        raise TypeError(f"{option}={given!r}; accepted is a list of pattern names; options are given with a plan: plan=[(name, {{...}}), ...]")
    for name in given:
        lookup(name)
    return tuple(given)


def _switch(plan: Plan, on: Sequence[str], off: Sequence[str]) -> Plan:
    present = {s.name for s in plan}
    missing = [lookup(n) for n in on if n not in present and n not in off]
    return Plan((*plan.without(*off).steps, *missing))


def _from_environment(plan: Plan, text: str) -> Plan:
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not words:
        return plan
    if words == ["none"]:
        return Plan()
    try:
        for word in words:
            lookup(word.lstrip("+-"))
    except ValueError as error:
        raise ValueError(f"environment variable {ENVIRONMENT}={text!r}: {error}") from None
    exactly = [w for w in words if w[0] not in "+-"]
    if exactly:
        if len(exactly) < len(words):
            raise ValueError(f"environment variable {ENVIRONMENT}={text!r} mixes names with and without a sign; accepted is one kind")
        given = {s.name: s for s in plan}
        return Plan(tuple(given.get(n, lookup(n)) for n in exactly))
    return _switch(plan, [w[1:] for w in words if w[0] == "+"], [w[1:] for w in words if w[0] == "-"])


def _after_autograd(plan: Plan, validate: Validator | None) -> PostGradPass | None:
    """The patterns of ATen-IR as a pass on graphs behind autograd; None if the plan has none."""
    chosen = behind_autograd(plan)

    def change(gm: GraphModule) -> None:
        journal = Engine(gm, chosen, validate).run()
        if journal.rewrites or journal.declined:
            _note(journal)

    return PostGradPass(change, f"{chosen.digest()}:{_name(validate)}{cache_key()}") if chosen else None


def _name(validate: Validator | None) -> str:
    return str(getattr(validate, "__qualname__", validate))


def _compiler(
    compiler: Compiler, mode: str | None, options: dict[str, Any], plan: Plan, later: PostGradPass | None
) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
    if compiler == "inductor":
        patches = _inductor_options(mode, options)
        patches |= below.inductor_patches(plan, _note, patches)
        if later is not None:
            patches[HOOK] = _behind(patches.get(HOOK), later)

        def finish(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            from torch._inductor.compile_fx import compile_fx

            return compile_fx(gm, example_inputs, config_patches=patches)  # type: ignore[arg-type, return-value]

        return finish
    if options or mode:
        unknown = ", ".join([*options, *(["mode"] if mode else [])])
        raise ValueError(f"backend optimus: {unknown} unknown to compiler {compiler!r}; accepted are {OWN}")
    partitioner = below.partitioner(compiler, plan, _note)
    if callable(compiler):
        return compiler
    if compiler == "aot_eager" and (later is not None or partitioner is not None):
        return aot_eager(None if later is None else later.change, partitioner)
    found: Callable[..., Any] = torch._dynamo.lookup_backend(compiler)
    return found


def _behind(chosen: Any, later: PostGradPass) -> PostGradPass:
    """``later`` behind the pass of the user: ``chosen`` for this compile, or else the one in Inductor's settings."""
    import torch._inductor.config as inductor

    return PostGradPass(later.change, later.identity, getattr(inductor, HOOK) if chosen is None else chosen)


def _inductor_options(mode: str | None, options: dict[str, Any]) -> dict[str, Any]:
    import torch._inductor.config as inductor
    from torch._inductor import list_mode_options

    patches: dict[str, Any] = {} if mode in (None, "default") else dict(list_mode_options(mode))
    known = inductor.get_config_copy()
    for name, given in options.items():
        spelled = name.replace("-", "_")
        if spelled not in known:
            raise ValueError(f"backend optimus: unknown option {name!r}; accepted are {OWN} and the options of Inductor")
        patches[spelled] = given
    return patches


class PreGradPass(CustomGraphPass):
    """The plan as a pass for Inductor's ``pre_grad_custom_pass``, behind the one that was there before."""

    def __init__(self, plan: Plan, validate: Validator | None, previous: Any = None) -> None:
        self.plan = plan
        self.validate = validate
        self.previous = previous

    def __call__(self, graph: Graph) -> None:
        """Rewrite ``graph`` in place."""
        if self.previous is not None:
            self.previous(graph)
        gm = graph.owning_module
        assert isinstance(gm, GraphModule)
        limiter = current()
        observe = None if limiter is None else limiter.observer()
        original = copy.deepcopy(gm) if observe is not None else None
        _note(Engine(gm, self.plan, self.validate).run())
        if original is not None and observe is not None and limiter is not None:
            observe(limiter, limiter.graphs, original, self.plan, self.validate, None)

    def uuid(self) -> Any:
        """Part of Inductor's cache key: changes with plan, options, pass code, validator, and the pass in front."""
        previous = self.previous.uuid() if hasattr(self.previous, "uuid") else repr(self.previous)
        return f"{self.plan.digest()}:{_name(self.validate)}:{previous}{cache_key()}"


@contextlib.contextmanager
def hooks(
    plan: Plan | None = None, *, enable: Sequence[str] = (), disable: Sequence[str] = (), validate: Validator | str | None = None
) -> Iterator[None]:
    """Inside, ``torch.compile`` with Inductor runs the plan; outside, all is as before. Compile, too, must happen inside."""
    import torch._inductor.config as inductor

    previous = inductor.pre_grad_custom_pass
    if isinstance(previous, (list, tuple)):
        raise TypeError("optimus.hooks: pre_grad_custom_pass is a list already; accepted is one pass, or None")
    chosen, judge = effective_plan(plan, enable, disable), resolve_validator(validate)
    added: dict[str, Any] = {"pre_grad_custom_pass": PreGradPass(chosen, judge, previous)}
    added |= below.inductor_patches(chosen, _note, {})
    later = _after_autograd(chosen, judge)
    if later is not None:
        added[HOOK] = _behind(None, later)
    with inductor.patch(added):
        yield
