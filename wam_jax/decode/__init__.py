"""From a sample's velocities to its losses and metrics, one sample at a time."""
