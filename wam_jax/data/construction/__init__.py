"""From an episode's arrays to those of a sample."""
