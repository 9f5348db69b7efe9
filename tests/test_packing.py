"""Packed parameters: the same training as without, whatever happens to a parameter in between."""

from __future__ import annotations

import copy
import gc
import io
import weakref

import pytest
import torch
from torch import nn

import optimus

N = 6


class Towers(nn.Module):
    """``N`` linears with layer norms over the slices of a tensor. [N, batch, 4] -> [batch, 4 N]."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(N))
        self.linears = nn.ModuleList(nn.Linear(4, 4) for _ in range(N))

    def forward(self, x):
        slices = torch.unbind(x)
        return torch.cat([torch.tanh(linear(norm(s))) for linear, norm, s in zip(self.linears, self.norms, slices, strict=True)], dim=1)


@pytest.fixture
def pair():
    torch.manual_seed(0)
    torch._dynamo.reset()
    optimus.clear_journals()
    model = Towers()
    return model, copy.deepcopy(model), torch.randn(N, 3, 4)


def packed(model, **options):
    return optimus.compile(model, pack=True, options={"compiler": "aot_eager", **options})


def backward(run, x):
    run(x).square().sum().backward()


def same(model, eager):
    for (name, one), other in zip(model.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=lambda m, name=name: f"{name}: {m}")
        assert (one.grad is None) == (other.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, msg=lambda m, name=name: f"gradient of {name}: {m}")


def storage(parameter):
    return parameter.untyped_storage().data_ptr()


def is_packed(model):
    return len({storage(linear.weight) for linear in model.linears}) == 1


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("to_none", [True, False])
def test_training_is_the_same(pair, name, to_none):
    model, eager, x = pair
    run = packed(model)
    first, second = OPTIMISERS[name](model.parameters()), OPTIMISERS[name](eager.parameters())
    for _ in range(4):
        for optimiser, call in ((first, run), (second, eager)):
            optimiser.zero_grad(set_to_none=to_none)
            backward(call, x)
            backward(call, 2 * x)  # gradients accumulate
            optimiser.step()
        same(model, eager)
    assert is_packed(model)
    assert [len(j.packed) for j in optimus.journals()] == [4]


def test_the_graph_takes_the_buffers_alone(pair):
    model, eager, x = pair
    seen = []

    def keep(gm, inputs):
        seen.append((gm, inputs))
        return gm.forward

    with torch.no_grad():
        torch.testing.assert_close(packed(model, compiler=keep)(x), eager(x))
    gm, inputs = seen[0]
    assert sorted(tuple(i.shape) for i in inputs) == [(6, 3, 4), (6, 4), (6, 4), (6, 4), (6, 4, 4)]
    joins = [n for n in gm.graph.nodes if n.target in (torch.stack, torch.cat)]
    placeholders = set(gm.graph.find_nodes(op="placeholder"))
    assert not [n for n in joins if all(m in placeholders for m in n.args[0])]


def test_without_the_option_nothing_moves(pair):
    model, _, x = pair
    before = [storage(p) for p in model.parameters()]
    backward(optimus.compile(model, options={"compiler": "aot_eager"}), x)
    assert before == [storage(p) for p in model.parameters()]
    assert not optimus.journals()[-1].packed


def test_grad_modes_and_batches_share_the_buffer(pair):
    model, eager, x = pair
    run = packed(model)
    backward(run, x)
    home = storage(model.linears[0].weight)
    with torch.no_grad():
        torch.testing.assert_close(run(x), eager(x))
    with torch.inference_mode():
        torch.testing.assert_close(run(x), eager(x))
    torch.testing.assert_close(run(torch.cat([x, x], dim=1)), eager(torch.cat([x, x], dim=1)))
    assert home == storage(model.linears[0].weight)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_trains_after_inference_came_first(pair, mode):
    model, eager, x = pair
    run = packed(model)
    with mode():
        torch.testing.assert_close(run(x), eager(x))
    backward(run, x)
    backward(eager, x)
    same(model, eager)


def changed_in_place(model):
    with torch.no_grad():
        model.linears[2].weight.mul_(3)


def written_through_data(model):
    model.linears[2].weight.data.add_(1)


def given_other_data(model):
    model.linears[2].weight.data = torch.ones(4, 4)


def replaced(model):
    model.linears[2].weight = nn.Parameter(torch.full((4, 4), 0.5))


def two_exchanged(model):
    model.linears[1].weight, model.linears[4].weight = model.linears[4].weight, model.linears[1].weight


def contents_exchanged(model):
    one, other = model.linears[1].weight, model.linears[4].weight
    one.data, other.data = other.data, one.data


def loaded(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


def assigned(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}, assign=True)


def frozen(model):
    model.linears[3].weight.requires_grad_(False)


def all_frozen(model):
    model.requires_grad_(False)
    model.norms[0].weight.requires_grad_(True)


def moved(model):
    model.double().float()


def shared(model):
    model.linears[1].weight = model.linears[0].weight


def shared_between_kinds(model):
    model.norms[1].bias = model.linears[1].bias


def removed_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None


CHANGES = [
    changed_in_place, written_through_data, given_other_data, replaced, two_exchanged, contents_exchanged, loaded, assigned, frozen,
    all_frozen, moved, shared, shared_between_kinds, removed_gradients,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("before", [True, False], ids=["packed before", "packed after"])
def test_changes_of_parameters_are_seen(pair, change, before):
    model, eager, x = pair
    run = packed(model)
    if before:
        backward(run, x)
        backward(eager, x)
    change(model)
    change(eager)
    for _ in range(2):
        backward(run, x)
        backward(eager, x)
        same(model, eager)
        with torch.no_grad():
            for p in [*model.parameters(), *eager.parameters()]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=0.1)
    torch.testing.assert_close(run(x), eager(x))


def test_a_replaced_parameter_keeps_its_values(pair):
    model, _, x = pair
    run = packed(model)
    run(x)
    old = model.linears[2].weight
    before = old.detach().clone()
    model.linears[2].weight = nn.Parameter(torch.zeros(4, 4))
    run(x)
    assert torch.equal(old, before)
    assert is_packed(model)
    assert storage(old) != storage(model.linears[2].weight)


def test_parameters_that_change_at_every_call(pair):
    model, eager, x = pair
    run = packed(model)
    for k in range(2 * optimus.packing.MOST_MOVES + 5):
        value = torch.full((4, 4), float(k % 7))
        model.linears[k % N].weight = nn.Parameter(value.clone())
        eager.linears[k % N].weight = nn.Parameter(value.clone())
        with torch.no_grad():
            torch.testing.assert_close(run(x), eager(x))


def test_two_models_do_not_share(pair):
    model, eager, x = pair
    run = packed(model)
    run(x)
    twin = copy.deepcopy(model)
    other = packed(twin)
    with torch.no_grad():
        twin.linears[0].weight.zero_()
        other(x)
        torch.testing.assert_close(run(x), eager(x))
        torch.testing.assert_close(other(x), twin(x))


def test_two_models_of_one_compiled_function(pair):
    """One function, compiled once, given two models in turn: parameters of both are right, as often as it goes on."""
    model, eager, x = pair
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.linears[0].weight.zero_()
    expected = [eager(x), copy.deepcopy(twin)(x)]
    run = optimus.compile(lambda m, x: m(x), pack=True, options={"compiler": "aot_eager"})
    for _ in range(3):
        torch.testing.assert_close(run(model, x), expected[0])
        torch.testing.assert_close(run(twin, x), expected[1])


def test_unpack(pair):
    model, eager, x = pair
    run = packed(model)
    backward(run, x)
    backward(eager, x)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    assert optimus.unpack(model) == 4
    assert optimus.unpack(model) == 0
    assert len({storage(p) for p in model.parameters()}) == len(list(model.parameters()))
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    backward(run, x)
    backward(eager, x)
    same(model, eager)
    assert not is_packed(model)
    assert optimus.unpack(list(model.parameters())) == 0


def test_state_dict_survives_a_file(pair):
    model, eager, x = pair
    packed(model)(x)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert list(loaded) == list(eager.state_dict())
    assert all(torch.equal(loaded[k], v) for k, v in eager.state_dict().items())


def test_a_copy_has_memory_of_its_own(pair):
    model, _, x = pair
    packed(model)(x)
    twin = copy.deepcopy(model)
    assert not {storage(p) for p in twin.parameters()} & {storage(p) for p in model.parameters()}


def test_nothing_holds_a_model_back():
    model = Towers()
    run = packed(model)
    backward(run, torch.randn(N, 3, 4))
    gone = [weakref.ref(p) for p in model.parameters()]
    del model, run
    gc.collect()
    assert not [ref for ref in gone if ref() is not None]


def test_hooks_of_parameters_see_their_gradients(pair):
    model, eager, x = pair
    seen: dict[str, list] = {"model": [], "eager": []}
    for key, m in (("model", model), ("eager", eager)):
        m.linears[1].weight.register_hook(lambda g, key=key: seen[key].append(g.clone()) or 2 * g)
        m.linears[2].bias.register_post_accumulate_grad_hook(lambda p, key=key: seen[key].append(p.grad.clone()))
    backward(packed(model), x)
    backward(eager, x)
    assert len(seen["model"]) == len(seen["eager"]) == 2
    same(model, eager)


def test_gradients_asked_for_by_name(pair):
    model, eager, x = pair
    run = packed(model)
    wanted = [model.linears[3].weight, model.norms[0].bias]
    found = torch.autograd.grad(run(x).square().sum(), wanted)
    expected = torch.autograd.grad(eager(x).square().sum(), [eager.linears[3].weight, eager.norms[0].bias])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert all(p.grad is None for p in model.parameters())


def test_an_update_before_the_backward_pass_raises_as_in_eager(pair):
    model, eager, x = pair
    run = packed(model)
    for m, call in ((model, run), (eager, eager)):
        loss = call(x).square().sum()
        with torch.no_grad():
            m.linears[1].weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an in"):
            loss.backward()


def test_parameters_that_are_written_in_the_graph_are_left_alone(pair):
    model, eager, x = pair

    def step(m, x):
        with torch.no_grad():
            m.linears[0].weight.add_(1)
        return m(x)

    torch.testing.assert_close(optimus.compile(lambda x: step(model, x), pack=True, options={"compiler": "aot_eager"})(x), step(eager, x))
    torch.testing.assert_close(model.linears[0].weight, eager.linears[0].weight)


def test_joined_parameters_that_are_returned_have_memory_of_their_own(pair):
    model, _, x = pair

    def joined(x):
        return torch.stack([linear.weight for linear in model.linears]), x + 1

    found, _ = optimus.compile(joined, pack=True, options={"compiler": "aot_eager"})(x)
    before = model.linears[0].weight.detach().clone()
    found.detach().zero_()
    assert torch.equal(model.linears[0].weight, before)
    assert ("pack", "returned") in optimus.journals()[-1].reasons()


def test_members_of_different_length(pair):
    x = pair[2]
    weights = nn.ParameterList(torch.randn(k, 4) for k in (1, 3, 2))
    twins = copy.deepcopy(weights)

    def joined(weights, x):
        return x[0] @ torch.cat(list(weights)).T

    run = optimus.compile(lambda x: joined(weights, x), pack=True, options={"compiler": "aot_eager"})
    for _ in range(2):
        one, other = run(x), joined(twins, x)
        torch.testing.assert_close(one, other)
        one.sum().backward()
        other.sum().backward()
        for w, t in zip(weights, twins, strict=True):
            torch.testing.assert_close(w.grad, t.grad)
    assert len({storage(w) for w in weights}) == 1


def test_memory_that_others_see_stays_shared(pair):
    """Also that of FSDP, which gathers parameters into memory of its own before each call."""
    model, eager, x = pair
    alias = model.linears[2].weight.detach()
    run = packed(model)
    for k in range(3):
        alias.fill_(k)
        with torch.no_grad():
            eager.linears[2].weight.fill_(k)
            torch.testing.assert_close(run(x), eager(x))
    assert ("pack", "shared") in optimus.journals()[-1].reasons()


def test_a_replacement_that_others_see_stays_shared(pair):
    model, eager, x = pair
    run = packed(model)
    run(x)
    alias = torch.ones(4, 4)
    model.linears[2].weight = nn.Parameter(alias)
    for k in range(3):
        alias.fill_(k)
        with torch.no_grad():
            eager.linears[2].weight.fill_(k)
            torch.testing.assert_close(run(x), eager(x))
    del alias
    run(x)
    assert is_packed(model)


def test_views_of_a_flat_buffer_stay_there(pair):
    model, eager, x = pair
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    start = 0
    for p in model.parameters():
        p.data = flat[start : start + p.numel()].view_as(p)
        start += p.numel()
    run = packed(model)
    for _ in range(2):
        flat.mul_(0.5)
        with torch.no_grad():
            for p in eager.parameters():
                p.mul_(0.5)
            torch.testing.assert_close(run(x), eager(x))


@pytest.mark.parametrize("given", [1, "yes", None])
def test_the_option_is_a_truth_value(pair, given):
    with pytest.raises(Exception, match="accepted are True and False"):
        optimus.compile(pair[0], options={"pack": given, "compiler": "aot_eager"})(pair[2])


def test_through_inductor(pair):
    model, eager, x = pair
    run = optimus.compile(model, pack=True)
    for _ in range(2):
        backward(run, x)
        backward(eager, x)
        same(model, eager)


@pytest.mark.parametrize("mode", ["default", "max-autotune-no-cudagraphs"])
def test_a_mode_beside_options(pair, mode):
    model, eager, x = pair
    with torch.no_grad():
        torch.testing.assert_close(optimus.compile(model, pack=True, mode=mode)(x), eager(x))
    assert optimus.journals()[-1].packed


def test_an_unknown_mode_is_told_of(pair):
    with pytest.raises(Exception, match="fastest"):
        optimus.compile(pair[0], pack=True, mode="fastest")(pair[2])
