"""The training runtime: mesh and shardings, state, compiled programs, the loop, checkpoints, metrics and the report."""
