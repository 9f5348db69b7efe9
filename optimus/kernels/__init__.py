"""Kernels written in Triton, which only these modules import: each is loaded where a device first runs it."""
