"""Operators that cut and join: sections, slices, indices, concatenation."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from verify.semantics.logic import Index, Int
from verify.semantics.movement import alias, unsqueezed
from verify.semantics.table import Use, means
from verify.semantics.tensor import Place, Product, Storage, Tensor, UnmodelledError, View, choose, flattened, number, same_number, symbolic


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
        piece = _piece(below.dims[d], start, extent) if step == 1 else None
        if piece is not None:
            k, factors = piece
            return below.map(dims, lambda i: replaced(i, d, Place((k, number(i[d])), factors, logic)))
        return below.map(dims, lambda i: replaced(i, d, start + step * number(i[d])))

    def backward(below: Tensor, new: Tensor) -> Tensor:
        def element(i: Index) -> Any:
            at = number(i[d]) - start
            inside = [at >= 0, at < step * extent] + ([at % step == 0] if step > 1 else [])
            return choose(logic, logic.all_of(*inside), lambda: new[replaced(i, d, at if step == 1 else _quotient(at, step))], lambda: below[i])

        return Tensor(below.dims, element, below.dtype)

    return View(base, forward, backward)


def _piece(whole: Any, start: Int, extent: Int) -> tuple[int, tuple[int, int]] | None:
    """Which one of the equal pieces that ``whole`` is made of the section lies in, from its beginning on; None if in none."""
    if not isinstance(whole, Product) or not whole.static or not isinstance(start, int) or not isinstance(extent, int):
        return None
    count, size = whole.factors[0], math.prod(whole.factors[1:])
    return (start // size, (count, size)) if start % size == 0 and extent <= size and start < count * size else None


def _quotient(number_: Int, step: int) -> Int:
    return number_ // step if isinstance(number_, int) else number_ / step


def _along(use: Use) -> tuple[Storage, int, Int]:
    """The tensor, one of its dimensions, and the extent there; a scalar has none."""
    base = use.storage("self")
    dims = base.read().dims
    use.demand(len(dims) > 0)
    d = use.dim(use.args["dim"], len(dims))
    return base, d, number(dims[d])


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
    base, d, extent = _along(use)
    given: Any = use.args.get("split_size", use.args.get("split_sizes"))
    if isinstance(given, (list, tuple)):
        sizes = [use.integer(g) for g in given]
        use.same(sum(sizes), extent)
        return _sections(use, base, d, sizes)
    size = use.integer(given)
    if isinstance(size, int) and isinstance(extent, int):
        use.demand(size > 0 or size == extent == 0)
        return _sections(use, base, d, _equal_pieces(extent, size))
    all_of, count = use.logic.all_of, _count(use)
    full = (count - 1) * size
    some = all_of(size > 0, full < extent, extent <= full + size)
    use.demand(use.logic.any_of(some, all_of(same_number(extent, 0), size >= 0, count == 1)))
    return _sections(use, base, d, [*[size] * (count - 1), extent - full])


def _equal_pieces(extent: int, size: int) -> list[int]:
    return [min(size, extent - start) for start in range(0, extent, size)] if extent else [0]


@means("chunk")
def chunk(use: Use) -> Any:
    """Pieces of the size ``ceil(extent / chunks)``, the last one shorter; of nothing, as many empty pieces as asked for."""
    base, d, extent = _along(use)
    chunks = use.args["chunks"]
    if not isinstance(chunks, int):
        raise UnmodelledError("chunk with a symbolic number of chunks")
    use.demand(chunks > 0)
    size = _quotient(extent + chunks - 1, chunks)
    if isinstance(extent, int):
        return _sections(use, base, d, _equal_pieces(extent, size) if extent else [0] * chunks)
    count = _count(use)
    full = (count - 1) * size
    use.demand(use.logic.any_of(use.logic.all_of(full < extent, extent <= full + size), use.logic.all_of(same_number(extent, 0), count == chunks)))
    return _sections(use, base, d, [*[size] * (count - 1), extent - full])


@means("tensor_split")
def tensor_split(use: Use) -> Any:
    """Nearly equal pieces, or pieces between given positions."""
    base, d, extent = _along(use)
    sections, positions = use.args.get("sections"), use.args.get("indices")
    if isinstance(sections, int):
        use.demand(sections > 0)
        small = _quotient(extent, sections)
        more = extent - sections * small
        return _sections(use, base, d, [small + use.logic.ite(more > k, 1, 0) for k in range(sections)])
    if not isinstance(positions, (list, tuple)) or not isinstance(extent, int) or not all(isinstance(p, int) for p in positions):
        raise UnmodelledError("tensor_split at symbolic positions")
    starts = [0, *(slice(p, None).indices(extent)[0] for p in positions)]
    return [crop(use, base, d, a, max(b - a, 0)) for a, b in zip(starts, [*starts[1:], extent], strict=True)]


def _count(use: Use) -> int:
    if not use.results:
        raise UnmodelledError(f"{use.call.op} whose number of pieces is unknown")
    return len(use.results)


@means("unbind")
def unbind(use: Use) -> Any:
    """Every slice along a dimension."""
    base, d, extent = _along(use)
    count = extent if isinstance(extent, int) else _count(use)
    use.same(extent, count)
    return [selected(use, base, d, k) for k in range(count)]


def selected(use: Use, base: Storage, d: int, k: Int) -> View:
    """The slice at position ``k`` of dimension ``d``, which goes."""
    logic = use.logic

    def forward(below: Tensor) -> Tensor:
        return below.map((*below.dims[:d], *below.dims[d + 1 :]), lambda i: (*i[:d], k, *i[d:]))

    def backward(below: Tensor, new: Tensor) -> Tensor:
        def element(i: Index) -> Any:
            return choose(logic, same_number(i[d], k), lambda: new[(*i[:d], *i[d + 1 :])], lambda: below[i])

        return Tensor(below.dims, element, below.dtype)

    return View(base, forward, backward)


@means("select")
def select(use: Use) -> Any:
    """One slice along a dimension; a negative index counts from the end."""
    base, d, extent = _along(use)
    return selected(use, base, d, _in_range(use, use.integer(use.args["index"]), extent))


def _in_range(use: Use, index: Int, extent: Int) -> Int:
    use.demand(use.logic.all_of(index >= -extent, index < extent))
    return use.logic.ite(index < 0, index + extent, index)


@means("narrow")
def narrow(use: Use) -> Any:
    """``length`` positions from ``start``."""
    base, d, extent = _along(use)
    start, length = use.integer(use.args["start"]), use.integer(use.args["length"])
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
    start = _clamped(use, 0 if piece.start is None else use.integer(piece.start), extent)
    stop = extent if piece.stop is None else _clamped(use, use.integer(piece.stop), extent)
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
    base, d, _ = _along(use)
    return sliced(use, base, d, slice(use.args["start"], use.args["end"], use.args["step"]))


@means("getitem")
def getitem(use: Use) -> Any:
    """A result of several, or a basic index of a tensor: numbers, slices, ``None``, an ellipsis."""
    source, index = use.args["self"], use.args["index"]
    if isinstance(source, (list, tuple)):
        if not isinstance(index, int):
            raise UnmodelledError("a computed choice among several results")
        use.demand(-len(source) <= index < len(source))
        return source[index]
    return indexed(use, use.storage("self"), index)


def indexed(use: Use, base: Storage, index: Any) -> Storage:
    """Basic indexing of a tensor."""
    entries = list(index) if isinstance(index, tuple) else [index]
    if not all(map(_is_basic, entries)):
        raise UnmodelledError("indexing by tensors, lists or truth values")
    rank = len(base.read().dims)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    use.demand(used <= rank)
    ellipses = [k for k, e in enumerate(entries) if e is Ellipsis]
    use.demand(len(ellipses) <= 1)
    for at in ellipses:
        entries[at : at + 1] = [slice(None)] * (rank - used)
    d, found = 0, base
    for entry in entries:
        if entry is None:
            found = unsqueezed(found, d)
            d += 1
        elif isinstance(entry, slice):
            if (entry.start, entry.stop, entry.step) != (None, None, None):
                found = sliced(use, found, d, entry)
            d += 1
        else:
            found = selected(use, found, d, _in_range(use, entry, number(found.read().dims[d])))
    return alias(found) if found is base else found


def _is_basic(entry: Any) -> bool:
    return (
        entry is None or entry is Ellipsis or isinstance(entry, slice) or symbolic(entry) or (isinstance(entry, int) and not isinstance(entry, bool))
    )


# -------------------------------------------------------------------------------------------------------------- joins


@means("cat")
def cat(use: Use) -> Tensor:
    """Tensors one after the other along a dimension; empty vectors are passed over; dtypes are promoted."""
    return _cat(use, [s.read() for s in use.storages("tensors")], use.args["dim"])


def _cat(use: Use, tensors: Sequence[Tensor], dim: Any) -> Tensor:
    use.demand(len(tensors) > 0)
    use.demand(all(len(t.dims) > 0 for t in tensors))
    legacy = [len(t.dims) == 1 and use.logic.decide(same_number(t.dims[0], 0)) is True for t in tensors]
    real = [t for t, skip in zip(tensors, legacy, strict=True) if not skip] or tensors[:1]
    rank = len(real[0].dims)
    d = use.dim(dim, rank)
    for other in real[1:]:
        use.demand(len(other.dims) == rank)
        use.same_dims(replaced(real[0].dims, d, 0), replaced(other.dims, d, 0))
    return _joined(use, [use.cast(t, use.dtype) for t in real], d)


def _joined(use: Use, tensors: Sequence[Tensor], d: int) -> Tensor:
    """The concatenation. Where all pieces are equally long, its extent is kept as a product, whose places tell the piece."""
    extents = [number(t.dims[d]) for t in tensors]
    count = len(tensors)
    starts: list[Int] = [0]
    for extent in extents:
        starts.append(starts[-1] + extent)
    even = all(isinstance(e, int) for e in extents) and len(set(extents)) == 1

    def element(i: Index) -> Any:
        place = i[d].split_off(count) if even and isinstance(i[d], Place) else None
        if count == 1:
            return tensors[0][i]
        if place is not None:
            return _picked(use, place[0], range(count), lambda k: tensors[k][replaced(i, d, place[1])])
        at = number(i[d])
        return _picked(use, at, starts[:-1], lambda k: tensors[k][replaced(i, d, 0 if _is_unit(extents[k]) else at - starts[k])])

    return Tensor(replaced(tensors[0].dims, d, flattened((count, tensors[0].dims[d])) if even else starts[-1]), element, use.dtype)


def _is_unit(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 1


def _picked(use: Use, at: Int, starts: Sequence[Int], piece: Callable[[int], Any]) -> Any:
    """``piece(k)`` for the last ``k`` that starts at or before ``at``, found by halving: the term is as deep as a tree."""
    if isinstance(at, int) and all(isinstance(s, int) for s in starts):
        return piece(max(bisect_right(starts, at) - 1, 0))

    def among(first: int, last: int) -> Any:
        if last - first == 1:
            return piece(first)
        middle = (first + last) // 2
        return choose(use.logic, at < starts[middle], lambda: among(first, middle), lambda: among(middle, last))

    return among(0, len(starts))


@means("hstack")
def hstack(use: Use) -> Tensor:
    """A ``cat`` along the second dimension; of vectors, and scalars as vectors, along the only one."""
    tensors = [_raised(s.read(), 1) for s in use.storages("tensors")]
    return _cat(use, tensors, 0 if tensors and len(tensors[0].dims) == 1 else 1)


@means("vstack")
def vstack(use: Use) -> Tensor:
    """A ``cat`` along the first dimension, of vectors as rows."""
    return _cat(use, [_raised(s.read(), 2) for s in use.storages("tensors")], 0)


@means("dstack")
def dstack(use: Use) -> Tensor:
    """A ``cat`` along the third dimension, of vectors as rows, and of matrices as they are."""
    return _cat(use, [_raised(s.read(), 3) for s in use.storages("tensors")], 2)


@means("column_stack")
def column_stack(use: Use) -> Tensor:
    """A ``cat`` along the second dimension, of vectors as columns."""
    columns = [_raised(t, 2, front=0) if len(t.dims) < 2 else t for t in (s.read() for s in use.storages("tensors"))]
    return _cat(use, columns, 1)


def _raised(given: Tensor, rank: int, front: int = 1) -> Tensor:
    """``given`` with dimensions of 1 up to ``rank``: ``front`` before what a vector has, others behind; all of them behind a matrix."""
    have = len(given.dims)
    before = min(front, rank - have) if have < min(rank, 2) else 0
    behind = max(rank - have - before, 0)
    return given.map((*[1] * before, *given.dims, *[1] * behind), lambda i: i[before : before + have])


@means("stack")
def stack(use: Use) -> Tensor:
    """Tensors of one shape along a new dimension."""
    given = [s.read() for s in use.storages("tensors")]
    use.demand(len(given) > 0)
    dims = given[0].dims
    for other in given[1:]:
        use.same_dims(dims, other.dims)
    d = use.dim(use.args["dim"], len(dims) + 1)
    tensors = [use.cast(t, use.dtype) for t in given]

    def element(i: Index) -> Any:
        rest = (*i[:d], *i[d + 1 :])
        return _picked(use, number(i[d]), range(len(tensors)), lambda k: tensors[k][rest])

    return Tensor((*dims[:d], len(tensors), *dims[d:]), element, use.dtype)
