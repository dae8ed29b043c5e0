"""From recorded trajectories to fixed-shape batches: contracts, stores, samplers, planner, materializer, loader."""
