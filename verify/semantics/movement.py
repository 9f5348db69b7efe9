"""Operators that move data: cutting, joining, moving dimensions, slicing, copying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from verify.semantics.logic import Index, Int
from verify.semantics.table import Use, means
from verify.semantics.tensor import Storage, Tensor, UnmodelledError, View, broadcast, number, same_number


def replaced(index: Index, d: int, new: Any) -> Index:
    """``index`` with entry ``d`` changed."""
    return (*index[:d], new, *index[d + 1 :])


def crop(use: Use, base: Storage, d: int, start: Int, extent: Int, step: int = 1) -> View:
    """Positions ``start``, ``start + step``, ... of dimension ``d``, ``extent`` of them."""
    logic = use.logic

    def forward(below: Tensor) -> Tensor:
        dims = replaced(below.dims, d, extent)
        if isinstance(start, int) and start == 0 and step == 1:
            return below.map(dims, lambda i: i)
        return below.map(dims, lambda i: replaced(i, d, start + step * number(i[d])))

    def backward(below: Tensor, new: Tensor) -> Tensor:
        def element(i: Index) -> Any:
            at = number(i[d]) - start
            inside = [at >= 0, at < step * extent] + ([at % step == 0] if step > 1 else [])
            own = new[replaced(i, d, at if step == 1 else _quotient(at, step))]
            return logic.ite(logic.all_of(*inside), own, below[i])

        return Tensor(below.dims, element, below.dtype)

    return View(base, forward, backward)


def _quotient(number_: Int, step: int) -> Int:
    return number_ // step if isinstance(number_, int) else number_ / step


def rearranged(
    base: Storage, dims: Callable[[tuple[Any, ...]], tuple[Any, ...]], there: Callable[[Index], Index], back: Callable[[Index], Index]
) -> View:
    """A view that only renames indices: ``there`` maps an index of the view to one of the base, ``back`` is its inverse."""

    def forward(below: Tensor) -> Tensor:
        return below.map(dims(below.dims), there)

    def backward(below: Tensor, new: Tensor) -> Tensor:
        return Tensor(below.dims, lambda i: new[back(i)], below.dtype)

    return View(base, forward, backward)


# --------------------------------------------------------------------------------------------------------------- cuts


def _sections(use: Use, base: Storage, d: int, sizes: Sequence[Int]) -> list[View]:
    pieces = []
    start: Int = 0
    for size in sizes:
        use.demand(size >= 0)
        pieces.append(crop(use, base, d, start, size))
        start = start + size
    return pieces


@means("split", "split_with_sizes")
def split(use: Use) -> Any:
    """Sections along a dimension: a size for each, or one size with a shorter rest."""
    base = use.storage("self")
    given: Any = use.args.get("split_size", use.args.get("split_sizes"))
    dims = base.read().dims
    d = use.dim(use.args["dim"], len(dims))
    extent = number(dims[d])
    if isinstance(given, (list, tuple)):
        use.demand(same_number(sum(given), extent))
        return _sections(use, base, d, given)
    count = _count(use)
    use.demand(use.logic.any_of(given > 0, use.logic.all_of(same_number(given, 0), same_number(extent, 0))))
    full = (count - 1) * given
    use.demand(use.logic.all_of(full <= extent, extent <= full + given))
    return _sections(use, base, d, [*[given] * (count - 1), extent - full])


@means("chunk")
def chunk(use: Use) -> Any:
    """Pieces of the size ``ceil(extent / chunks)``, the last one shorter."""
    base = use.storage("self")
    dims = base.read().dims
    d = use.dim(use.args["dim"], len(dims))
    extent, chunks, count = number(dims[d]), use.args["chunks"], _count(use)
    if not isinstance(chunks, int):
        raise UnmodelledError("chunk with a symbolic number of chunks")
    use.demand(chunks > 0)
    size = _quotient(extent + chunks - 1, chunks)
    full = (count - 1) * size
    empty = same_number(extent, 0)
    use.demand(use.logic.any_of(use.logic.all_of(full < extent, extent <= full + size), empty))
    return _sections(use, base, d, [*[size] * (count - 1), extent - full])


@means("tensor_split")
def tensor_split(use: Use) -> Any:
    """Nearly equal pieces, or pieces between given positions."""
    base = use.storage("self")
    dims = base.read().dims
    d = use.dim(use.args["dim"], len(dims))
    extent = number(dims[d])
    sections = use.args.get("sections")
    if isinstance(sections, int):
        small = _quotient(extent, sections)
        more = extent - sections * small
        sizes = [small + use.logic.ite(more > k, 1, 0) for k in range(sections)]
        return _sections(use, base, d, sizes)
    positions = use.args.get("indices")
    if not isinstance(positions, (list, tuple)) or not isinstance(extent, int) or not all(isinstance(p, int) for p in positions):
        raise UnmodelledError("tensor_split at symbolic positions")
    starts = [0, *(slice(p, None).indices(extent)[0] for p in positions)]
    stops = [*starts[1:], extent]
    return [crop(use, base, d, a, max(b - a, 0)) for a, b in zip(starts, stops, strict=True)]


def _count(use: Use) -> int:
    if not use.results:
        raise UnmodelledError(f"{use.call.op} whose number of pieces is unknown")
    return len(use.results)


@means("unbind")
def unbind(use: Use) -> Any:
    """Every slice along a dimension."""
    base = use.storage("self")
    dims = base.read().dims
    use.demand(len(dims) > 0)
    d = use.dim(use.args["dim"], len(dims))
    count = len(use.results)
    use.demand(same_number(dims[d], count))
    return [selected(use, base, d, k) for k in range(count)]


def selected(use: Use, base: Storage, d: int, k: Int) -> View:
    """The slice at position ``k`` of dimension ``d``, which goes."""
    logic = use.logic

    def forward(below: Tensor) -> Tensor:
        return below.map((*below.dims[:d], *below.dims[d + 1 :]), lambda i: (*i[:d], k, *i[d:]))

    def backward(below: Tensor, new: Tensor) -> Tensor:
        def element(i: Index) -> Any:
            return logic.ite(same_number(i[d], k), new[(*i[:d], *i[d + 1 :])], below[i])

        return Tensor(below.dims, element, below.dtype)

    return View(base, forward, backward)


@means("select")
def select(use: Use) -> Any:
    """One slice along a dimension; a negative index counts from the end."""
    base = use.storage("self")
    dims = base.read().dims
    d = use.dim(use.args["dim"], len(dims))
    return selected(use, base, d, _in_range(use, use.args["index"], number(dims[d])))


def _in_range(use: Use, index: Int, extent: Int) -> Int:
    use.demand(use.logic.all_of(index >= -extent, index < extent))
    return use.logic.ite(index < 0, index + extent, index)


@means("narrow")
def narrow(use: Use) -> Any:
    """``length`` positions from ``start``."""
    base = use.storage("self")
    dims = base.read().dims
    d = use.dim(use.args["dim"], len(dims))
    start, length, extent = use.args["start"], use.args["length"], number(dims[d])
    use.demand(use.logic.all_of(length >= 0, start >= -extent, start <= extent))
    start = use.logic.ite(start < 0, start + extent, start)
    use.demand(start + length <= extent)
    return crop(use, base, d, start, length)


def sliced(use: Use, base: Storage, d: int, piece: Any) -> Storage:
    """Python's slice of one dimension, ends clamped; steps are positive."""
    extent = number(base.read().dims[d])
    step = 1 if piece.step is None else piece.step
    if not isinstance(step, int):
        raise UnmodelledError("a slice with a symbolic step")
    use.demand(step > 0)
    start = _clamped(use, 0 if piece.start is None else piece.start, extent)
    stop = extent if piece.stop is None else _clamped(use, piece.stop, extent)
    length = use.logic.ite(stop > start, stop - start, 0)
    return crop(use, base, d, start, length if step == 1 else _quotient(length + step - 1, step), step)


def _clamped(use: Use, at: Int, extent: Int) -> Int:
    ite = use.logic.ite
    if isinstance(at, int) and at == 0:
        return 0
    if isinstance(at, int) and at >= 2**62:
        return extent
    at = ite(at < 0, at + extent, at)
    return ite(at < 0, 0, ite(at > extent, extent, at))


@means("slice")
def slice_(use: Use) -> Any:
    """``aten.slice``: one dimension from start to end by step."""
    base = use.storage("self")
    d = use.dim(use.args["dim"], len(base.read().dims))
    return sliced(use, base, d, slice(use.args["start"], use.args["end"], use.args["step"]))


@means("getitem")
def getitem(use: Use) -> Any:
    """A result of several, or a basic index of a tensor: numbers, slices, ``None``, an ellipsis."""
    source, index = use.args["self"], use.args["index"]
    if isinstance(source, (list, tuple)):
        if not isinstance(index, int):
            raise UnmodelledError("a computed choice among several results")
        if not -len(source) <= index < len(source):
            use.demand(False)
            return source[0]
        return source[index]
    return indexed(use, use.storage("self"), index)


def indexed(use: Use, base: Storage, index: Any) -> Storage:
    """Basic indexing of a tensor."""
    entries = list(index) if isinstance(index, tuple) else [index]
    if not all(e is None or e is Ellipsis or isinstance(e, (int, slice)) or _is_symbolic(e) for e in entries) or any(
        isinstance(e, bool) for e in entries
    ):
        raise UnmodelledError("indexing by tensors or lists")
    rank = len(base.read().dims)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if used > rank:
        use.demand(False)
        raise UnmodelledError("more indices than dimensions")
    if Ellipsis in [e for e in entries if not _is_symbolic(e)]:
        at = next(i for i, e in enumerate(entries) if e is Ellipsis)
        entries[at : at + 1] = [slice(None)] * (rank - used)
    d, found = 0, base
    for entry in entries:
        if entry is None:
            found = unsqueezed(found, d)
            d += 1
        elif isinstance(entry, slice):
            if entry != slice(None):
                found = sliced(use, found, d, entry)
            d += 1
        else:
            found = selected(use, found, d, _in_range(use, entry, number(found.read().dims[d])))
    return alias(use, found) if found is base else found


def _is_symbolic(entry: Any) -> bool:
    return hasattr(entry, "get_id")


# -------------------------------------------------------------------------------------------------------------- joins


@means("cat")
def cat(use: Use) -> Tensor:
    """Tensors one after the other along a dimension; empty vectors are passed over; dtypes are promoted."""
    tensors: list[Tensor] = [s.read() for s in use.args["tensors"]]
    legacy = [len(t.dims) == 1 and use.logic.decide(same_number(t.dims[0], 0)) is True for t in tensors]
    real = [t for t, skip in zip(tensors, legacy, strict=True) if not skip] or tensors[:1]
    rank = len(real[0].dims)
    use.demand(rank > 0)
    d = use.dim(use.args["dim"], rank)
    for other in real[1:]:
        use.demand(len(other.dims) == rank)
        if len(other.dims) != rank:
            return real[0]
        for k in range(rank):
            if k != d:
                use.demand(same_number(real[0].dims[k], other.dims[k]))
    return joined(use, [use.cast(t, use.dtype) for t in real], d)


def joined(use: Use, tensors: Sequence[Tensor], d: int) -> Tensor:
    """The concatenation itself."""
    starts: list[Int] = [0]
    for t in tensors:
        starts.append(starts[-1] + number(t.dims[d]))

    def element(i: Index) -> Any:
        if len(tensors) == 1:
            return tensors[0][i]
        at = number(i[d])
        if isinstance(at, int) and all(isinstance(s, int) for s in starts):
            k = max(k for k in range(len(tensors)) if starts[k] <= at and (starts[k + 1] > at or k == len(tensors) - 1))
            return tensors[k][replaced(i, d, at - starts[k])]
        found = tensors[-1][replaced(i, d, at - starts[-2])]
        for k in range(len(tensors) - 2, -1, -1):
            found = use.logic.ite(at < starts[k + 1], tensors[k][replaced(i, d, at - starts[k])], found)
        return found

    return Tensor(replaced(tensors[0].dims, d, starts[-1]), element, use.dtype)


@means("stack")
def stack(use: Use) -> Tensor:
    """Tensors of one shape along a new dimension."""
    tensors = [use.cast(s.read(), use.dtype) for s in use.args["tensors"]]
    dims = tensors[0].dims
    for other in tensors[1:]:
        use.demand(len(other.dims) == len(dims))
        if len(other.dims) == len(dims):
            for a, b in zip(dims, other.dims, strict=True):
                use.demand(same_number(a, b))
    d = use.dim(use.args["dim"], len(dims) + 1)

    def element(i: Index) -> Any:
        at, rest = number(i[d]), (*i[:d], *i[d + 1 :])
        if isinstance(at, int):
            return tensors[at][rest] if 0 <= at < len(tensors) else tensors[-1][rest]
        found = tensors[-1][rest]
        for k in range(len(tensors) - 2, -1, -1):
            found = use.logic.ite(same_number(at, k), tensors[k][rest], found)
        return found

    return Tensor((*dims[:d], len(tensors), *dims[d:]), element, use.dtype)


# --------------------------------------------------------------------------------------------------------- dimensions


def permuted(base: Storage, order: Sequence[int]) -> View:
    """Dimension ``k`` of the view is dimension ``order[k]`` of the base."""
    inverse = [list(order).index(k) for k in range(len(order))]
    return rearranged(base, lambda dims: tuple(dims[o] for o in order), lambda i: tuple(i[k] for k in inverse), lambda i: tuple(i[o] for o in order))


@means("permute")
def permute(use: Use) -> Any:
    """Dimensions in a given order."""
    base = use.storage("self")
    rank = len(base.read().dims)
    order = [use.dim(d, rank) for d in use.args["dims"]]
    if sorted(order) != list(range(rank)):
        use.demand(False)
        return base
    return permuted(base, order)


@means("transpose")
def transpose(use: Use) -> Any:
    """Two dimensions exchanged."""
    base = use.storage("self")
    rank = len(base.read().dims)
    a, b = (use.dim(use.args[n], rank) for n in ("dim0", "dim1"))
    order = list(range(rank))
    if rank:
        order[a], order[b] = b, a
    return permuted(base, order)


@means("t")
def t(use: Use) -> Any:
    """The transpose of a matrix; vectors and scalars as they are."""
    base = use.storage("self")
    rank = len(base.read().dims)
    use.demand(rank <= 2)
    return permuted(base, list(reversed(range(rank))))


@means("mT")
def matrix_transpose(use: Use) -> Any:
    """The last two dimensions exchanged."""
    base = use.storage("self")
    rank = len(base.read().dims)
    use.demand(rank >= 2)
    order = list(range(rank))
    order[-2:] = reversed(order[-2:])
    return permuted(base, order)


@means("movedim")
def movedim(use: Use) -> Any:
    """Dimensions moved to new places, the others keeping their order."""
    base = use.storage("self")
    rank = len(base.read().dims)
    source, destination = (list(a) if isinstance(a := use.args[n], (list, tuple)) else [a] for n in ("source", "destination"))
    source, destination = [use.dim(d, rank) for d in source], [use.dim(d, rank) for d in destination]
    order: list[Any] = [None] * rank
    for s, d in zip(source, destination, strict=True):
        order[d] = s
    rest = iter(k for k in range(rank) if k not in source)
    return permuted(base, [next(rest) if o is None else o for o in order])


def unsqueezed(base: Storage, d: int) -> View:
    """A dimension of extent 1 put in at ``d``."""
    return rearranged(base, lambda dims: (*dims[:d], 1, *dims[d:]), lambda i: (*i[:d], *i[d + 1 :]), lambda i: (*i[:d], 0, *i[d:]))


@means("unsqueeze")
def unsqueeze(use: Use) -> Any:
    """A new dimension of extent 1."""
    base = use.storage("self")
    return unsqueezed(base, use.dim(use.args["dim"], len(base.read().dims) + 1))


@means("squeeze")
def squeeze(use: Use) -> Any:
    """Dimensions of extent 1 taken out, all or those named."""
    base = use.storage("self")
    dims = base.read().dims
    named = use.args.get("dim")
    wanted = range(len(dims)) if named is None else [use.dim(d, len(dims)) for d in (named if isinstance(named, (list, tuple)) else [named])]
    gone = []
    for d in wanted:
        if d >= len(dims):
            continue
        one = use.logic.decide(same_number(dims[d], 1))
        if one is None:
            raise UnmodelledError("squeeze of a dimension that may or may not have extent 1")
        if one:
            gone.append(d)
    kept = [d for d in range(len(dims)) if d not in gone]

    def there(i: Index) -> Index:
        full: list[Any] = [0] * len(dims)
        for position, d in enumerate(kept):
            full[d] = i[position]
        return tuple(full)

    return rearranged(base, lambda dims: tuple(dims[d] for d in kept), there, lambda i: tuple(i[d] for d in kept))


@means("expand")
def expand(use: Use) -> Any:
    """Dimensions of extent 1 repeated without a copy."""
    base = use.storage("self")
    own, wanted = base.read().dims, list(use.args["size"])
    use.demand(len(wanted) >= len(own))
    lead = len(wanted) - len(own)
    dims: list[Any] = []
    for k, extent in enumerate(wanted):
        inherited = own[k - lead] if k >= lead else None
        if isinstance(extent, int) and extent == -1:
            use.demand(inherited is not None)
            dims.append(inherited)
            continue
        dims.append(extent)
        if inherited is not None:
            use.demand(use.logic.any_of(same_number(inherited, 1), same_number(inherited, extent)))
    final = tuple(dims)
    return View(base, lambda below: broadcast(use.logic, below, final), None)


@means("expand_as")
def expand_as(use: Use) -> Any:
    """Expanded to the shape of another tensor."""
    final = use.tensor("other").dims
    return View(use.storage("self"), lambda below: broadcast(use.logic, below, final), None)


# ------------------------------------------------------------------------------------------------------ copies, alias


def alias(use: Use, base: Storage) -> View:
    """The same elements under another name."""
    del use
    return rearranged(base, lambda dims: dims, lambda i: i, lambda i: i)


@means("alias")
def alias_(use: Use) -> Any:
    """A view of everything."""
    return alias(use, use.storage("self"))


@means("contiguous")
def contiguous(use: Use) -> Any:
    """The tensor itself where it is contiguous, else a copy; metadata says which."""
    return alias(use, use.storage("self")) if use.aliases else use.tensor("self")


@means("clone")
def clone(use: Use) -> Tensor:
    """A copy."""
    return use.tensor("self")


@means("detach")
def detach(use: Use) -> Any:
    """The same storage, cut off from the gradient: a symbol of its own, never the identity."""
    symbol = use.symbol("detach")

    def forward(below: Tensor) -> Tensor:
        return Tensor(below.dims, lambda i: use.logic.apply(symbol, below[i]), below.dtype)

    return View(use.storage("self"), forward, lambda _, new: new)


@means("to", "type_as")
def to(use: Use) -> Any:
    """A cast; the tensor itself where dtype and device are right already."""
    return alias(use, use.storage("self")) if use.aliases else use.cast(use.tensor("self"), use.dtype)


@means("size")
def size(use: Use) -> Any:
    """The shape, or one extent."""
    dims = tuple(map(number, use.tensor("self").dims))
    rest = use.args.get("rest", ())
    d = use.args.get("dim", rest[0] if rest else None)
    return dims if d is None else dims[use.dim(d, len(dims))]


@means("dim")
def dim(use: Use) -> Any:
    """The number of dimensions."""
    return len(use.tensor("self").dims)
