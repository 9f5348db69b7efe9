"""A find as a program that needs nothing but PyTorch: eager, Inductor without the pass, and Inductor with it, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuzz.program import Input, Program
from verify.shipped import NONE, ShippedPass

HALF = (torch.float16, torch.bfloat16)

TEMPLATE = '''"""{title}

{differences}

Found on PyTorch {version}. Exits with 1 as long as Inductor with the pass differs from Inductor without it.
"""

import sys

import torch
from torch import device, float16, float32, float64, bfloat16, int8, int16, int32, int64, uint8, complex64, complex128, inf, nan
from torch._inductor import config


{source}


def make_inputs():
    return [
{inputs}
    ]


def seen(settings):
    """What can be observed of one run, as pairs of facts and values: inputs, outputs and gradients, or what is raised."""
    torch._dynamo.reset()
    inputs = make_inputs()
    torch.manual_seed(0)
    try:
        if settings is None:
            outputs = program(*inputs)
        else:
            with config.patch(settings | {{"force_disable_caches": True}}):
                outputs = torch.compile(program, dynamic={dynamic})(*inputs)
        wanted, leaves = [t for t in outputs if t.requires_grad], [t for t in inputs if t.requires_grad]
        gradients = torch.autograd.grad([t.abs().sum() for t in wanted], leaves, allow_unused=True) if wanted else []
    except Exception as error:
        return [("raises " + type(error).__name__, None)]
    tensors = [*inputs, *outputs]
    places = [t.untyped_storage().data_ptr() for t in tensors]
    found = []
    for k, t in enumerate(tensors):
        name = f"input {{k}}" if k < len(inputs) else f"output {{k - len(inputs)}}"
        shared = [j for j in range(k) if places[j] == places[k] and t.numel()]
        found.append((f"{{name}}: {{t.dtype}}, {{tuple(t.shape)}}, strides {{t.stride()}}, requires_grad {{t.requires_grad}}, shares memory with {{shared}}", t.detach()))
    return found + [(f"gradient {{k}}", g) for k, g in enumerate(gradients)]


def same(one, other):
    if one[0] != other[0] or (one[1] is None) != (other[1] is None):
        return False
    return one[1] is None or torch.allclose(one[1], other[1], rtol={rtol}, atol={rtol}, equal_nan=True)


runs = {{"eager": seen(None), "Inductor without the pass": seen({none}), "Inductor with it": seen({settings})}}
eager, without, with_it = runs.values()
wrong = len(without) != len(with_it) or any(not same(one, other) for one, other in zip(without, with_it))
for name, run in runs.items():
    print(name)
    for k, (facts, values) in enumerate(run):
        if len(without) != len(with_it) or not same(without[k], with_it[k]):
            print("  ", facts, *([] if values is None else [str(values.flatten()[:8].tolist())]))
sys.exit(wrong)
'''


def script(program: Program, chosen: ShippedPass, differences: Sequence[str], dynamic: bool = False) -> str:
    """The text of the program. ``dynamic``: with symbols for sizes. Inputs of up to 64 elements are written out, larger ones are drawn."""
    return TEMPLATE.format(
        title=f"Inductor's {chosen.option} changes what this program computes.",
        differences="\n".join(d.replace("\\", "/").replace('"""', "'''") for d in differences),
        version=torch.__version__,
        source=program.source(),
        inputs="\n".join(f"        {_made(i)}," for i in program.inputs),
        none=NONE,
        dynamic=dynamic or None,
        settings=chosen.configured,
        rtol=1e-2 if any(i.dtype in HALF for i in program.inputs) else 1e-4,
    )


def _made(given: Input) -> str:
    made = given.make()
    dtype = str(given.dtype)
    grad = ".requires_grad_()" if made.requires_grad else ""
    flat = torch.as_strided(made.detach(), (_reach(made),), (1,), made.storage_offset()) if made.numel() else made.detach().flatten()
    values = f"torch.tensor({flat.tolist()}, dtype={dtype})"
    if flat.numel() > 64:
        values = f"torch.randn({flat.numel()}, generator=torch.Generator().manual_seed({given.seed})).to({dtype})"
    return f"{values}.as_strided({tuple(made.shape)}, {made.stride()}){grad}"


def _reach(given: torch.Tensor) -> int:
    """How many elements of memory lie between the first and the last of a tensor, both counted."""
    return 1 + sum((size - 1) * stride for size, stride in zip(given.shape, given.stride(), strict=True))
