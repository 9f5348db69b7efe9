"""Bisection of rewrites: from "it is wrong" to the rewrite that makes it so, cut down to a small graph."""

from __future__ import annotations

from verify.bisection.drive import bisect

__all__ = ["bisect"]
