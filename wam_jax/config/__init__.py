"""The typed schema of a run, read from an ml_collections file and checked before anything is allocated."""
