"""Two processes train one model: the same trajectory with and without rewrites, and the same rewrites in both."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

RANK = """
    import json, sys
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import optimus

    rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)

    class Towers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(6))
            self.head = torch.nn.Linear(48, 1)

        def forward(self, x):
            first, rest = torch.split(x, [8, 40], dim=1)
            pieces = torch.split(torch.cat([first, rest], dim=1), 8, dim=1)
            towers = [torch.tanh(layer(piece)) for layer, piece in zip(self.layers, pieces)]
            return self.head(torch.cat(towers, dim=1))

    bitwise = optimus.Plan(tuple(p for p in optimus.plan.default_plan() if p.exactness is optimus.Exactness.BITWISE))
    options = {"compiler": "aot_eager"}
    ways = {
        "eager": lambda model: model,
        "aot_eager": lambda model: torch.compile(model, backend="aot_eager"),
        "bitwise": lambda model: optimus.compile(model, plan=bitwise, options=options),
        "default": lambda model: optimus.compile(model, options=options),
    }

    def train(way, bucket_mb):
        torch.manual_seed(0)
        torch._dynamo.reset()
        optimus.clear_journals()
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1000 if bucket_mb < 1 else 2**20
        model = DistributedDataParallel(Towers(), bucket_cap_mb=bucket_mb)
        step, optimizer = ways[way](model), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        generator = torch.Generator().manual_seed(1 + rank)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = step(torch.randn(5, 48, generator=generator)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        weights = [w.item() for p in model.parameters() for w in (p.double().sum(), p.double().abs().sum())]
        journals = optimus.journals()
        return {"losses": losses, "weights": weights, "graphs": len(journals), "rewrites": [str(r) for j in journals for r in j]}

    found = {f"{way} {bucket}": train(way, bucket) for way in ways for bucket in (25.0, 0.001)}
    open(out, "w").write(json.dumps(found))
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    """What each of two ranks has seen, by way and size of a bucket in MB."""
    folder: Path = tmp_path_factory.mktemp("ranks")
    (folder / "rank.py").write_text(textwrap.dedent(RANK))
    outs = [folder / f"{rank}.json" for rank in range(2)]
    command = [[sys.executable, str(folder / "rank.py"), str(rank), str(folder / "store"), str(outs[rank])] for rank in range(2)]
    started = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for c in command]
    try:
        for rank in started:
            _, errors = rank.communicate(timeout=500)
            assert rank.returncode == 0, errors[-3000:]
    finally:
        for rank in started:
            rank.kill()
    return [json.loads(o.read_text()) for o in outs]


@pytest.mark.parametrize(("bucket", "several"), [("25.0", False), ("0.001", True)], ids=["one graph", "a graph for each bucket"])
class TestTwoRanks:
    def test_the_same_trajectory(self, ranks, bucket, several):
        """Patterns that keep the bits change nothing at all."""
        plain, ours = ([r[f"{way} {bucket}"] for r in ranks] for way in ("aot_eager", "bitwise"))
        assert ours[0]["rewrites"] and (ours[0]["graphs"] > 1) == several
        assert ours[0]["rewrites"] == ours[1]["rewrites"]
        for what in ("losses", "weights"):
            assert [r[what] for r in ours] == [r[what] for r in plain]
        assert ours[0]["weights"] == ours[1]["weights"]

    def test_the_same_up_to_rounding(self, ranks, bucket, several):
        """All patterns, as against eager."""
        plain, ours = ([r[f"{way} {bucket}"] for r in ranks] for way in ("eager", "default"))
        assert several or any("batch_linear" in r for r in ours[0]["rewrites"])
        for one, other in zip(plain, ours, strict=True):
            assert one["losses"] == pytest.approx(other["losses"], rel=1e-5)
            assert one["weights"] == pytest.approx(other["weights"], rel=1e-5, abs=1e-6)
        assert ours[0]["weights"] == ours[1]["weights"]
