"""From recorded trajectories to fixed-shape batches: stores, draws, samples, plans, and the loader."""
