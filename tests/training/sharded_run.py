"""`python -m tests.training.sharded_run DATA FSDP DIRECTORY`: ten updates of the fakes on a mesh of that many devices.

Eight rows an update however many devices there are. Prints the losses and gradient norms as JSON, and what each device
holds of the stacked kernel.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Runs the loop on simulated devices."""
    data, fsdp = int(sys.argv[1]), int(sys.argv[2])
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={data * fsdp}"
    from tests.training.fakes import FakeData
    from tests.training.rigs import make_rig, run_loop

    rig = make_rig(FakeData(rows=data * fsdp, microbatches=8 // (data * fsdp)), mesh=(data, fsdp))
    state, _, rows = run_loop(rig, Path(sys.argv[3]), rig.fresh(), 0)
    kernel = state.params["blocks"]["mix"]["kernel"]
    held = sorted({shard.data.shape for shard in kernel.addressable_shards})
    trained = [[row["loss"], row["grad_norm"]] for row in rows if row["phase"] == "train"]
    print(json.dumps({"held": held, "rows": trained}))


if __name__ == "__main__":
    main()
