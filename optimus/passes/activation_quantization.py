from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from optimus.fp8 import BY_NAME, ENCODED_BY_NAME, converts
from optimus.pattern import IR, Decline, Exactness, Pattern, at_least, declines, fires, one_of
from optimus.values import is_plain, known, same_size, tensor
from optimus.versions import no_new_guards
from optimus.views import root

MEGABYTE = 1 << 20


@fires("n, k", "k, m")
def activation(x, w):
    return F.gelu(torch.mm(x, w)).sum(1)


@fires("n, k", "k, m", "k, m")
def gated(x, w, v):
    return (F.silu(torch.mm(x, w)) * torch.mm(x, v)).sum(0)


@fires("n, k", "m, k")
def used_twice(x, w):
    h = torch.mm(x, w.t())
    return (h * h).sin().sum(), torch.sigmoid(h).sum(0)


@fires("n, k", "k, m", "m, k")
def beside_a_result(x, w, v):
    h = torch.mm(x, w)
    y = torch.mm(h, v)
    return h, y.tanh().sum()


@fires("b, n, k", "k, m")
def three_dimensions(x, w):
    return torch.sin(torch.matmul(x, w)).sum(0)


@fires("8, k", "k, 6", "6, m")
def some_of_the_rows(x, w, v):
    return torch.mm(torch.mm(x, w)[:3], v)


@declines("returned", "n, k", "k, m", "m, k")
def returned(x, w, v):
    h = torch.mm(x, w)
    return h, torch.mm(h, v)


@declines("returned", "n, k", "k, m", "m, k")
def view_returned(x, w, v):
    h = torch.mm(x, w)
    return h.t(), torch.mm(h, v)


@declines("input", "n, k", "n, k")
def inputs(x, y):
    return x * y


@declines("dtype", "n, k: float64", "k, m: float64")
def wide(x, w):
    return torch.mm(x, w).sin().sum()


@declines("no_gain", "n, k: bfloat16", "k, m: bfloat16")
def rows_may_be_short(x, w):
    return torch.mm(x, w).sin().sum()


@declines("layout", "n, k", "k, m + 1", "m, k")
def part_of_a_row(x, w, v):
    return torch.mm(torch.mm(x, w)[:, 1:], v)


@declines("exponent", "n, k", "k, m")
def scores(x, w):
    return torch.logsumexp(torch.mm(x, w), 1)


@dataclass(frozen=True)
class ActivationQuantization(Pattern):
    """``saved(t); use(t)  ->  saved(encode(t, step(t)), step(t)); use(decode(encode(t, step(t)), step(t)))``

    What the forward pass saves for the backward pass is kept in 8-bit floating point. Outputs are those of the same graph, bit by bit:
    Inductor compiles the encoding to kernels of its own, behind a value that is written to memory as it is where it is saved. Gradients
    are those that the same backward pass computes from saved values each of which is off by at most the bound that
    :mod:`optimus.fp8` states. Infinities and NaN are kept, so that what is finite in eager stays finite.

    Sound because the forward pass is only added to, and the backward pass reads a saved value through one name. Stops at what
    the caller holds: outputs and whatever lies in their memory, parameters, and (``exclude_primals``) inputs, whose
    memory would not become free. All saved views of one storage are quantised or none, and only if the copies with their
    steps are smaller than that storage, so that memory never grows. Strides are kept, for a backward graph depends on them.
    """

    name = "activation_quantization_aten_pass"
    ir = IR.ATEN
    anchors = frozenset()
    exactness = Exactness.LOSSY
    by_default = False
    judged_with = {"size_in_mb": 0, "allowed_dtypes": "bfloat16;float16;float32"}
    requirements = {
        "dtype": "a saved value is a dense tensor of one of allowed_dtypes",
        "small": "it has at least size_in_mb, for all sizes that the graph admits",
        "returned": "nothing in its memory is an output of the forward pass",
        "input": "it is no parameter, nor, with exclude_primals, in the memory of any input",
        "exponent": "the backward pass takes no exponential of it (scores of a softmax that is computed again, queries and keys of attention)",
        "layout": "it fills its memory from the start, in an order of dimensions that element-wise operators keep",
        "no_gain": "all that is saved of its memory, and the steps, take less in 8 bits than that memory",
        "device": "its device converts to the format: a CPU, or a CUDA GPU (of compute capability 8.9 for float8_e4m3fn)",
    }
    cases = (activation, gated, used_twice, beside_a_result, three_dimensions, some_of_the_rows)
    declines = (returned, view_returned, inputs, wide, rows_may_be_short, part_of_a_row, scores)

    size_in_mb: int = 100
    """Smallest tensor, in units of 2^20 bytes. Where nearly all that is saved was quantised (4), a transformer did not train."""
    allowed_dtypes: str = "bfloat16"
    """Which dtypes are quantised, separated by semicolons: bfloat16, float16, float32."""
    quant_type: str = "float8_e5m2"
    """The format: float8_e5m2 or float8_e4m3fn."""
    use_scaling: bool = True
    """Store a step, a power of two, for each row of the last dimension; else clamp to the range of the format."""
    exclude_primals: bool = True
    """Leave inputs alone; parameters always are. Their caller holds them, so that a copy in 8 bits is memory on top."""
    quantize_dynamic_shape: bool = False
    """Take a size that is not known for large enough."""
    exponents: bool = False
    """Quantise also what the backward pass takes an exponential of, where an error is added to an exponent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "size_in_mb", 0)
        _ = self.format, self.dtypes  # either raises where it names what there is not

    @property
    def format(self) -> torch.dtype:
        """The format as a dtype."""
        return one_of(self, "quant_type", [_name(self.quant_type)], BY_NAME)[0]

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The dtypes that are quantised."""
        return one_of(self, "allowed_dtypes", map(_name, self.allowed_dtypes.split(";")), ENCODED_BY_NAME)

    def choose(self, saved: Sequence[Node], returned: Sequence[Node], static: frozenset[Node], exponents: frozenset[str]) -> list[Node | Decline]:
        """Each value that a forward graph saves, or the refusal to quantise it.

        ``returned``: the outputs of the forward pass. ``static``: inputs that are parameters or buffers. ``exponents``: names of saved
        values that the backward pass takes an exponential of.
        """
        held, kept = {root(n) for n in returned}, {root(n) for n in static}
        found: list[Node | Decline] = [self._refusal(n, held, kept, exponents) or n for n in saved]
        classes: dict[Node, list[int]] = {}
        for k, node in enumerate(saved):
            classes.setdefault(root(node), []).append(k)
        for source, places in classes.items():
            able = [k for k in places if isinstance(found[k], Node)]
            if len(able) < len(places) or not self._gains(source, [saved[k] for k in places]):
                why = "another view of it stays" if len(able) < len(places) else f"{len(places)} are saved of it"
                found = [Decline("no_gain", f"memory of {source.name}: {why}") if k in able else f for k, f in enumerate(found)]
        return found

    def _refusal(self, node: Node, held: set[Node], kept: set[Node], exponents: frozenset[str]) -> Decline | None:
        fake, source = tensor(node), root(node)
        if fake is None or not is_plain(fake) or fake.dtype not in self.dtypes:
            return Decline("dtype", "no tensor" if fake is None else str(fake.dtype))
        if not converts(fake.device, self.format):
            return Decline("device", str(fake.device))
        if not self._large(fake):
            return Decline("small", f"{tuple(fake.shape)} of {fake.dtype}")
        if source in held:
            return Decline("returned", f"the memory of {source.name}")
        if source in kept or (self.exclude_primals and source.op == "placeholder"):
            return Decline("input", source.name)
        if node.name in exponents and not self.exponents:
            return Decline("exponent", node.name)
        if not known(fake.storage_offset() == 0) or not all(map(same_size, fake.stride(), _elementwise_strides(fake))):
            return Decline("layout", f"strides {tuple(fake.stride())} at {fake.storage_offset()}")
        return None

    def _large(self, fake: Tensor) -> bool:
        size, least = fake.numel() * fake.element_size(), self.size_in_mb * MEGABYTE
        return known(size >= least) or (self.quantize_dynamic_shape and not known(size < least))

    def _gains(self, source: Node, saved: Sequence[Node]) -> bool:
        """Whether ``saved``, all in the memory of ``source``, are smaller in 8 bits. Told by the row where one fills it all."""
        memory, *fakes = (t for n in (source, *saved) if (t := tensor(n)) is not None)
        if len(fakes) == 1 and same_size(fakes[0].numel(), memory.numel()):
            row = fakes[0].shape[-1] if fakes[0].dim() else 1
            return known(row + self._step_bytes < row * memory.element_size())
        return known(sum(map(self._bytes, fakes)) < memory.numel() * memory.element_size())

    @property
    def _step_bytes(self) -> int:
        return 4 if self.use_scaling else 0

    def _bytes(self, fake: Tensor) -> Any:
        return fake.numel() + self._step_bytes * math.prod(fake.shape[:-1])


def _name(given: str) -> str:
    """A dtype as options name it, with or without ``torch.``."""
    return given.strip().removeprefix("torch.")


def _elementwise_strides(fake: Tensor) -> tuple[Any, ...]:
    """The strides of what an element-wise operator makes of ``fake``."""
    with no_new_guards(getattr(getattr(fake, "fake_mode", None), "shape_env", None), None):
        return torch.empty_like(fake).stride()
