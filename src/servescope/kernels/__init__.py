"""Numba kernels: arrays in, arrays out; no files, clocks, Arrow or state."""
