"""Training of world-action models on trajectories of unequal length, without changing what any one means."""
