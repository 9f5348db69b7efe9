"""Factories of public models with random weights, and of two workloads of our own.

Each returns ``(model, inputs)``. The click-through models of deepctr-torch read 26 sparse features with 1,000 values each
and 13 dense ones; those of transformers and timm are small, and read tokens and images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SPARSE, DENSE, VALUES = 26, 13, 1000
HISTORY = 4
TABLE = (
    "AFM", "AFN", "AutoInt", "CCPM", "DCN", "DCNMix", "DIEN", "DIFM", "DIN", "DeepFM", "ESMM", "FiBiNET", "IFM", "MLR", "MMOE", "NFM", "ONN",
    "PLE", "PNN", "SharedBottom", "WDL", "xDeepFM",
)  # fmt: skip
"""Every model of deepctr-torch."""
ENCODERS = ("bert", "gpt2", "deberta-v2", "t5", "mamba")
"""Kinds of model of transformers."""
IMAGES = ("test_resnet", "test_efficientnet", "test_convnext", "test_vit")
"""Models that timm keeps small."""
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100},
    "mamba": {**SMALL, "state_size": 4},
    "t5": {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16, "vocab_size": 100},
}
TOKENS, SIDE = 16, 64
WITH_HISTORY, OF_TWO_TASKS = ("DIN", "DIEN"), ("ESMM", "MMOE", "PLE", "SharedBottom")


class Branches(torch.nn.Module):
    """``count`` branches cut from one tensor, split twice and joined again, normalised, projected, stacked and concatenated.

    Takes ``(count, 64, width)``, gives ``(64, count * width)``.
    """

    def __init__(self, count: int, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(count))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One result for all branches."""
        results = []
        for norm, layer, branch in zip(self.norms, self.layers, torch.unbind(x), strict=True):
            head, tail = torch.split(branch, [16, self.width - 16], dim=1)
            middle, end = torch.split(tail, [16, self.width - 32], dim=1)
            results.append(layer(norm(torch.cat([head, middle, end], dim=1))))
        return torch.cat(torch.unbind(torch.stack(results), dim=0), dim=1)


class PackedBranches(torch.nn.Module):
    """What :class:`Branches` computes, written by hand: all branches at once, each kind of parameter in one tensor."""

    def __init__(self, count: int, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.scale = torch.nn.Parameter(torch.ones(count, 1, width))
        self.shift = torch.nn.Parameter(torch.zeros(count, 1, width))
        self.weight = torch.nn.Parameter(torch.randn(count, width, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.randn(count, 1, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One result for all branches."""
        x = torch.nn.functional.layer_norm(x, (self.width,)) * self.scale + self.shift
        return torch.baddbmm(self.bias, x, self.weight).transpose(0, 1).flatten(1)


class Ranking(torch.nn.Module):
    """A ranking model with the small operators that the paper finds in production models, each ``count`` times.

    Takes ``(batch, count * width)``, gives ``(batch, 1)``. Feature groups are cut, cleaned and gated one by one; their
    towers read one input or inputs of their own; parts of splits and unbinds are joined again, as they are, reshaped or
    stacked; tasks that are not to train what they share read it detached.
    """

    def __init__(self, count: int, width: int = 16) -> None:
        super().__init__()
        self.count, self.width = count, width
        linear = torch.nn.Linear
        self.own = torch.nn.ModuleList(linear(width, width) for _ in range(count))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(count))
        self.shared = torch.nn.ModuleList(linear(count * width, 8 + k) for k in range(count))
        self.tasks = torch.nn.ModuleList(linear(width, width) for _ in range(count))
        self.mixing = torch.nn.Parameter(torch.randn(1, width, width))
        self.head = linear(self._features(), 1)

    def _features(self) -> int:
        n, w = self.count, self.width
        return 3 * n * w + 4 * (n - 2) * w + (n - 2) * w + w + sum(8 + k for k in range(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logit of each row."""
        n, w = self.count, self.width
        (x,) = torch.split(x, n * w, dim=1)
        clean = [torch.clamp(torch.nan_to_num(g), -3.0, 3.0) for g in torch.split(x, w, dim=1)]
        towers = [torch.tanh(layer(norm(g))) for layer, norm, g in zip(self.own, self.norms, clean, strict=True)]
        gates = [torch.sigmoid(torch.relu(t)) for t in towers]
        joint = torch.cat([t * g for t, g in zip(towers, gates, strict=True)], dim=1)
        wide = [torch.relu(layer(joint)) for layer in self.shared]
        pieces = torch.split(joint, w, dim=1)
        tasks = [layer(t.detach()) for layer, t in zip(self.tasks, towers, strict=True)]
        inner = slice(1, n - 1)
        ends = torch.cat(torch.split(joint, w, dim=1)[inner], dim=1)
        middle = torch.cat([*pieces[inner], pieces[0].exp()], dim=1).narrow(1, 0, (n - 2) * w)
        planes = torch.unbind(joint.view(-1, n, w), dim=1)
        rows = torch.stack([*planes[inner], planes[0].cos()], dim=1).flatten(1).narrow(1, 0, (n - 2) * w)
        beside = torch.cat([*planes[inner], planes[0].sin()], dim=1).narrow(1, 0, (n - 2) * w)
        above = torch.stack([*pieces[inner], pieces[0].sin()]).narrow(0, 0, n - 2).transpose(0, 1).flatten(1)
        flat = torch.stack([p.reshape(-1) for p in torch.split(joint.t(), w)]).sum(0).view(w, -1).t()
        mixed = torch.einsum("bnw,bnwv->bnv", joint.view(-1, n, w), self.mixing.expand(x.shape[0], n, w, w)).flatten(1)
        return self.head(torch.cat([joint, ends, middle, *wide, *tasks, rows, beside, above, flat, mixed], dim=1))


class Encoder(torch.nn.Module):
    """A model of transformers as a function of token numbers."""

    def __init__(self, name: str) -> None:
        super().__init__()
        from transformers import AutoConfig, AutoModel

        self.model = AutoModel.from_config(AutoConfig.for_model(name, **SIZES.get(name, SMALL)))
        self.decodes = name == "t5"

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The last hidden state."""
        further = {"decoder_input_ids": tokens} if self.decodes else {}
        found: torch.Tensor = self.model(input_ids=tokens, use_cache=False, **further)[0]
        return found


def make(name: str, batch: int = 64, width: int = 8, device: str = "cpu", sparse: int = SPARSE) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model class ``name`` of ``deepctr_torch.models`` in training mode, and a random batch; ``sparse``: how many sparse features it reads.

    Names of :data:`ENCODERS` and :data:`IMAGES` are models of transformers and timm, those in training mode.
    ``Branches`` with a number behind it is :class:`Branches` of that many, in bfloat16, whatever the batch; so are
    ``PackedBranches``; ``Ranking`` with a number is :class:`Ranking` of that many.
    """
    if name in ENCODERS:
        torch.manual_seed(0)
        return Encoder(name).train().to(device), (torch.randint(0, 100, (batch, TOKENS)).to(device),)
    if name in IMAGES:
        import timm

        torch.manual_seed(0)
        size = {"img_size": SIDE} if name == "test_vit" else {}
        return timm.create_model(name, num_classes=10, **size).train().to(device), (torch.randn(batch, 3, SIDE, SIDE).to(device),)
    if name.startswith("Ranking"):
        torch.manual_seed(0)
        ranking = Ranking(int(name.removeprefix("Ranking")))
        return ranking.to(device), (torch.randn(batch, ranking.count * ranking.width, device=device),)
    if name.removeprefix("Packed").startswith("Branches"):
        count = int(name.rpartition("Branches")[2])
        torch.manual_seed(0)
        made = PackedBranches(count) if name.startswith("Packed") else Branches(count)
        return made.to(torch.bfloat16), (torch.randn(count, 64, 64, dtype=torch.bfloat16, device=device),)
    import deepctr_torch.models as models
    from deepctr_torch.inputs import DenseFeat, SparseFeat

    torch.manual_seed(0)
    columns = [SparseFeat(f"C{k}", VALUES, embedding_dim=width) for k in range(sparse)]
    columns += [DenseFeat(f"I{k}", 1) for k in range(DENSE)]
    generator = torch.Generator().manual_seed(1)
    if name in WITH_HISTORY:
        return _with_history(getattr(models, name), batch, width, device, generator)
    kind = getattr(models, name)
    if name == "MLR" or name == "PNN":
        model = kind(columns, task="binary", device=device)
    elif name in OF_TWO_TASKS:
        model = kind(columns, task_types=["binary", "binary"], task_names=["ctr", "ctcvr"], device=device)
    elif name == "AFM" or name == "CCPM":
        model = kind(columns, columns[:sparse], task="binary", device=device)
    else:
        model = kind(columns, columns, task="binary", device=device)
    numbers = torch.randint(0, VALUES, (batch, sparse), generator=generator).float()
    return model, (torch.cat([numbers, torch.rand(batch, DENSE, generator=generator)], 1).to(device),)


def _with_history(kind: Any, batch: int, width: int, device: str, generator: torch.Generator) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A model that reads a sequence of items: of ``HISTORY`` at most, of different lengths."""
    from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat

    user, item = SparseFeat("user", VALUES, embedding_dim=width), SparseFeat("item", VALUES, embedding_dim=width)
    past = SparseFeat("hist_item", VALUES, embedding_dim=width, embedding_name="item")
    columns = [user, item, DenseFeat("score", 1), VarLenSparseFeat(past, maxlen=HISTORY, length_name="seq_length")]
    model = kind(columns, ["item"], device=device, task="binary")
    lengths = torch.randint(1, HISTORY + 1, (batch, 1), generator=generator)
    history = torch.randint(1, VALUES, (batch, HISTORY), generator=generator)
    history[torch.arange(HISTORY) >= lengths] = 0
    known = {"user": torch.randint(0, VALUES, (batch, 1), generator=generator), "item": torch.randint(0, VALUES, (batch, 1), generator=generator)}
    known |= {"score": torch.rand(batch, 1, generator=generator), "hist_item": history, "seq_length": lengths}
    parts = [known[name].float() for name in model.feature_index]
    return model, (torch.cat(parts, dim=1).to(device),)


def _factory(name: str) -> Callable[[], Any]:
    return lambda: make(name)


branches = _factory("Branches16")
fibinet, autoint, dcnmix, xdeepfm, onn, deepfm = map(_factory, ("FiBiNET", "AutoInt", "DCNMix", "xDeepFM", "ONN", "DeepFM"))


def _small(name: str) -> Callable[[], Any]:
    return lambda: make(name, batch=4)


small_branches, small_ranking, small_autoint, small_dcnmix = map(_small, ("Branches4", "Ranking6", "AutoInt", "DCNMix"))
"""Small ones, as they stand in the corpus."""
