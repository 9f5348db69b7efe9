"""Bisection of rewrites: from "it is wrong" to the rewrite that makes it so, cut down to a small graph."""
