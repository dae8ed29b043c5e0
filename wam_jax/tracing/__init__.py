"""Named tensors along the way of the model, and where two runs first differ."""

from wam_jax.tracing.tape import ROUND, Recorded, Stream, Trace, mapped, record, record_gradients, scan, scope, tag

__all__ = ["ROUND", "Recorded", "Stream", "Trace", "mapped", "record", "record_gradients", "scan", "scope", "tag"]
