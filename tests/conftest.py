"""What every test shares: the CPU, quick compilation, one compilation cache for the session and its subprocesses."""

import os
import tempfile

# Before JAX is imported: compiling dominates tests this small, so the compiler is told to optimise little.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
_CACHE = tempfile.TemporaryDirectory(prefix="wam-jax-compilation-")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _CACHE.name)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
