"""From positions in the stream of draws to what is drawn: episodes, segments, contracts, geometry, objectives."""
