#!/usr/bin/env bash
# Trains on all devices of this machine, and goes on where an earlier start of the same run stopped.
#
#     launch/local.sh configs/quickstart.py runs/quickstart [--config.GROUP.FIELD=VALUE ...]
#     PROCESSES=2 launch/local.sh ...     as so many processes: with GPUs one process for each of the first ones, on the
#                                         CPU with one device each (more by XLA_FLAGS=--xla_force_host_platform_device_count=N)
#
#     START_OPTIONS="--initialize-weights-from runs/base" launch/local.sh ...
#                                         options of the first start alone; also "--resume-from runs/other" for a branch,
#                                         with --new-data-phase if it has other data. Later starts resume WORKDIR.
#
# One process drives all GPUs of a machine just as well; several are for trying out what a cluster will do. The first
# start compiles; later ones take the programs from the cache beside the runs. SIGTERM (a scheduler's warning) saves and
# ends with exit code 0, so the same line may simply be run again.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: [PROCESSES=N] launch/local.sh CONFIG WORKDIR [--config.GROUP.FIELD=VALUE ...]" >&2
    exit 2
fi
config=$1 workdir=$2 processes=${PROCESSES:-1}
shift 2

export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$(dirname "$workdir")/.compiled}
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=${JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS:-1}

# One that was cut short while being written has more than digits in its name.
shopt -s extglob
read -ra begin <<< "${START_OPTIONS:-}"
if compgen -G "$workdir/checkpoints/+([0-9])" > /dev/null; then
    begin=(--resume-from "$workdir")
fi
run=(python3 -m uv run python -m wam_jax.train --config "$config" --workdir "$workdir" "${begin[@]}" "$@")
if [ "$processes" -eq 1 ]; then
    exec "${run[@]}"
fi

# Process 0 listens for the others at this address; wam_jax.train reads these three variables.
export JAX_COORDINATOR_ADDRESS=${JAX_COORDINATOR_ADDRESS:-localhost:$((20000 + RANDOM % 10000))}
export JAX_NUM_PROCESSES=$processes
gpus=$(command -v nvidia-smi > /dev/null && nvidia-smi --list-gpus | wc -l || echo 0)
members=()
# A signal to this script is passed on to all of them, and the script then waits until they have saved. Each is in a
# process group of its own (set -m), so that Ctrl-C, which goes to the script's whole group, reaches them once.
set -m
trap 'kill -TERM "${members[@]}" 2> /dev/null || true' TERM INT
for ((process = 0; process < processes; process++)); do
    export JAX_PROCESS_ID=$process
    if [ "$gpus" -gt 0 ]; then
        export JAX_LOCAL_DEVICE_IDS=$process
    fi
    "${run[@]}" &
    members+=($!)
done

# All of them end when one fails (wam_jax.training.cluster); the first bad exit code is that of the run.
code=0
for member in "${members[@]}"; do
    status=0
    wait "$member" || status=$?
    while [ "$status" -gt 128 ] && kill -0 "$member" 2> /dev/null; do # A signal to this script interrupted `wait`.
        status=0
        wait "$member" || status=$?
    done
    [ "$code" -ne 0 ] || code=$status
done
exit "$code"
