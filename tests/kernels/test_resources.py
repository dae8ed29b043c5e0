"""The reports of the compiler, read; and the tuner's word where there is no GPU."""

import pytest

from wam_kernels import resources, tune
from wam_kernels.launch import Launch

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'range_attention_dq' for 'sm_90a'
ptxas info    : Function properties for range_attention_dq
    24 bytes stack frame, 16 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size
ptxas info    : Compiling entry function 'wrapped_add' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in 'range_attention_dq'
"""

PTX = """
.visible .entry range_attention_dq(
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 a;
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 b;
}
.visible .entry wrapped_add(
  add.f32 a;
}
"""


def test_registers_spills_and_instructions_are_read_by_kernel():
    found = resources._from_log(LOG, PTX)
    spilling, quiet = found["range_attention_dq"], found["wrapped_add"]
    assert (spilling.registers, spilling.spilled_bytes, spilling.serialized_wgmma) == (255, 16, True)
    assert (quiet.registers, quiet.spilled_bytes, quiet.serialized_wgmma) == (10, 0, False)
    assert spilling.instructions["wgmma.mma_async"] == 2
    assert not any(quiet.instructions.values())


def test_shared_memory_of_triton_comes_from_the_thunks(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_assemble", lambda _path: LOG)
    (tmp_path / "module_0001.ptx").write_text(PTX)
    line = "range_attention_dq grid: [8, 2, 1] threads: [256, 1, 1] shared_memory: 197632 bytes"
    (tmp_path / "module_0001.thunk_sequence.txt").write_text(line)
    assert resources._read(tmp_path, "")["range_attention_dq"].shared_memory == 197_632


def test_mosaic_s_own_dump_is_read(tmp_path):
    (tmp_path / "range_attention_dq_0.ptxas").write_text(
        LOG.split("ptxas info    : Compiling entry function 'wrapped")[0]
    )
    (tmp_path / "range_attention_dq_0.ptx").write_text(PTX)
    (tmp_path / "range_attention_dq_0.resources.txt").write_text("smem_scratch_bytes=131072\n")
    found = resources._read(tmp_path, "")["range_attention_dq_0"]
    assert (found.registers, found.shared_memory) == (255, 131_072)


def test_the_tuner_says_what_to_do_without_a_gpu():
    with pytest.raises(SystemExit, match="no GPU is attached"):
        tune.main(["--backend", "pallas_mosaic"])


def test_the_tuner_ranks_the_quickest_first_and_leaves_out_what_fails(monkeypatch):
    def timed(backend, kernel, _options):
        (size,) = backend.tile_sizes()
        if size == (128, 128):
            raise ValueError("too much shared memory")
        return 1 / size[0] + size[1] / 1e6, f"{kernel} {size}"

    monkeypatch.setattr(tune, "_timed", timed)
    options = tune._parser().parse_args(["--backend", "pallas_mosaic", "--best", "2"])
    assert tune.ranked("dq", options) == [
        (Launch(128, 64, 2, 2), "dq (128, 64)"),
        (Launch(128, 64, 2, 3), "dq (128, 64)"),
    ]
