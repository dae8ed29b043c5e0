#!/usr/bin/env bash
# Trains on all devices of this machine in one process, and goes on where an earlier start of the same run stopped.
#
#     launch/local.sh configs/quickstart.py runs/quickstart [--config.GROUP.FIELD=VALUE ...]
#
# The first start compiles; later ones take the programs from the cache beside the runs. SIGTERM (a scheduler's warning)
# saves and ends with exit code 0, so the same line may simply be run again.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: launch/local.sh CONFIG WORKDIR [--config.GROUP.FIELD=VALUE ...]" >&2
    exit 2
fi
config=$1 workdir=$2
shift 2

export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$(dirname "$workdir")/.compiled}
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=${JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS:-1}

# One that was cut short while being written has more than digits in its name.
shopt -s extglob
resume=()
if compgen -G "$workdir/checkpoints/+([0-9])" > /dev/null; then
    resume=(--resume-from "$workdir")
fi
exec python3 -m uv run python -m wam_jax.train --config "$config" --workdir "$workdir" "${resume[@]}" "$@"
