"""Benchmarks and the models they run on."""
