"""What is trained: an architecture with its preparation and its per-sample decoder, behind one execution hook."""
