"""Measurements of batching: step times of the modes on the same draws, and how densely the packers pack."""
