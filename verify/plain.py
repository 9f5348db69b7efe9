"""Proofs as plain data and back, for the cache. Of the verdicts only a proof has such a form, so that nothing else is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from verify.verdict import CLAIMS, Proved


def to_plain(given: Any, *kinds: type) -> Any:
    """Numbers, texts, None, tuples, proofs that are confirmed throughout, and dataclasses of ``kinds``, as data for JSON.

    Raises ``TypeError`` for anything else, ``ValueError`` for a proof that a second solver did not confirm.
    """
    if given is None or type(given) in (bool, int, float, str):
        return given
    if type(given) is tuple:
        return {"tuple": [to_plain(g, *kinds) for g in given]}
    if type(given) not in (Proved, *kinds) or not is_dataclass(given):
        raise TypeError(f"a {type(given).__name__} is not kept")
    if isinstance(given, Proved) and given.confirmed < given.queries:
        raise ValueError(f"a proof of {given.queries} queries, {given.confirmed} confirmed, is not kept")
    return {"is": type(given).__name__} | {f.name: to_plain(getattr(given, f.name), *kinds) for f in fields(given)}


def from_plain(data: Any, *kinds: type) -> Any:
    """What :func:`to_plain` was given, proofs marked as cached. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for other data."""
    if not isinstance(data, Mapping):
        return data
    if set(data) == {"tuple"}:
        return tuple(from_plain(d, *kinds) for d in data["tuple"])
    kind = {k.__name__: k for k in (Proved, *kinds)}[data["is"]]
    if set(data) != {"is", *(f.name for f in fields(kind))}:
        raise ValueError(f"a cached {kind.__name__} of {', '.join(data)}")
    made = kind(**{name: from_plain(value, *kinds) for name, value in data.items() if name != "is"})
    return _checked(made) if isinstance(made, Proved) else made


def _checked(proof: Proved) -> Proved:
    counts = (proof.queries, proof.confirmed)
    if proof.claim not in CLAIMS or not all(type(n) is int and n >= 0 for n in counts) or proof.confirmed != proof.queries:
        raise ValueError(f"a cached proof of {proof.queries} queries, {proof.confirmed} confirmed, claiming {proof.claim}")
    return replace(proof, cached=True)


def pack_proof(verdict: object) -> dict[str, Any] | None:
    """A proof as an entry of the cache; None for any other verdict, and for a proof that was not confirmed throughout."""
    return packed({"verdict": verdict}) if isinstance(verdict, Proved) else None


def unpack_proof(entry: Mapping[str, Any]) -> Proved:
    """The proof that :func:`pack_proof` packed."""
    found = from_plain(entry["verdict"])
    if not isinstance(found, Proved):
        raise TypeError(f"a cached verdict of type {type(found).__name__}")
    return found


def packed(entry: Mapping[str, Any], *kinds: type) -> dict[str, Any] | None:
    """An entry of the cache; None if some of it is not kept."""
    try:
        return {name: to_plain(value, *kinds) for name, value in entry.items()}
    except (TypeError, ValueError):
        return None
