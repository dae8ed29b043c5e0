"""Measurements of batching: step times of the modes on the same draws, density of packing, scale of planning."""
