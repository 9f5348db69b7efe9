"""What fires where: every pattern of Torch-IR on the graphs of public models and of workloads.

Each model is captured in training mode, then rewritten by all of them, those that are off by default included; where one
waits for a GPU, as ``group_linear`` does, it is told not to. Models are those of deepctr-torch, a few of transformers
with random weights, the workloads of :mod:`benchmarks.models`, and ``Linears16`` of :mod:`benchmarks.group_linear`.

    python -m benchmarks.fires > benchmarks/results/fires.md
"""

from __future__ import annotations

import argparse
import platform
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import torch

import optimus
from benchmarks.group_linear import Linears
from benchmarks.models import ENCODERS, make
from optimus.capture import capture
from optimus.pattern import IR, Pattern
from optimus.plan import on_graphs, replace_options

Factory = Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]]

DEEPCTR = ("AFN", "AutoInt", "DCN", "DCNMix", "DIFM", "DeepFM", "FiBiNET", "IFM", "MLR", "NFM", "ONN", "WDL", "xDeepFM")
WORKLOADS = ("Branches16", "Ranking16")


def _linears(count: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    model = Linears(count, odd=False)
    return model, tuple(torch.randn(8, layer.in_features) for layer in model.layers)


MODELS: dict[str, Factory] = {
    **{name: partial(make, name) for name in (*DEEPCTR, *WORKLOADS)},
    "Linears16": partial(_linears, 16),
    **{name: partial(make, name, batch=2) for name in ENCODERS},
}


def _anywhere(pattern: Pattern) -> Pattern:
    """The pattern at its defaults, but that it waits for no GPU."""
    return replace_options(pattern, {"everywhere": True}) if "everywhere" in pattern.options() else pattern


PLAN = optimus.Plan(tuple(_anywhere(p) for p in on_graphs() if p.ir is IR.TORCH))


def fires(factory: Factory) -> tuple[int, int, Counter[str], Counter[str]]:
    """Graphs and nodes of a model, and by pattern what was rewritten and what was declined."""
    torch.manual_seed(0)
    model, inputs = factory()
    rewrites: Counter[str] = Counter()
    declines: Counter[str] = Counter()
    nodes = 0
    found = capture(model, inputs)
    for one in found:
        nodes += len(one.gm.graph.nodes)
        journal = optimus.rewrite(one.gm, PLAN)
        rewrites.update(journal.counts())
        declines.update(f"{d.pattern}: {d.reason}" for d in journal.declined)
    return len(found), nodes, rewrites, declines


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"default: all of {', '.join(MODELS)}")
    chosen = parser.parse_args().models or list(MODELS)
    unknown = [m for m in chosen if m not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]!r}; accepted are {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    print(
        f"# What fires where\n\n{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}; training mode; every pattern of Torch-IR, on any device.\n"
    )
    print(
        "Of the models, `Branches16` and `Ranking16` are workloads of `benchmarks/models.py`, `Linears16` is that of `benchmarks/group_linear.py`.\n"
    )
    print("| model | graphs | nodes | rewrites | declined, most frequent |\n|---|---|---|---|---|")
    where: dict[str, list[str]] = {name: [] for name in (s.name for s in PLAN)}
    for name in chosen:
        try:
            graphs, nodes, rewrites, declines = fires(MODELS[name])
        except Exception as error:  # noqa: BLE001 - a model that does not build here is a row like others
            print(f"| {name} | - | - | {type(error).__name__}: {str(error).splitlines()[0][:80]} | |", flush=True)
            continue
        for pattern in rewrites:
            where[pattern].append(name)
        listed = ", ".join(f"{p} {c}" for p, c in rewrites.most_common())
        print(f"| {name} | {graphs} | {nodes} | {listed} | {', '.join(f'{d} {c}' for d, c in declines.most_common(3))} |", flush=True)
    print("\n| pattern | fires on |\n|---|---|")
    for pattern, models in where.items():
        print(f"| `{pattern}` | {', '.join(models) or 'none of these'} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
