"""What every mode owes the global stream, for any lengths, sampler and split: nothing added, lost or repeated."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.data.indexes import equal, make_index, make_law
from tests.support.runs import tiny_config
from wam_jax.config.schema import BatchingConfig
from wam_jax.data.batching.modes import make_planner
from wam_jax.data.batching.planner import Planner, UpdateShape, draws_per_epoch
from wam_jax.data.drawing.draw_law import DrawLaw
from wam_jax.data.drawing.draws import DrawTable, concatenate
from wam_jax.data.drawing.samplers import Replacement, RoutedReplacement, ShuffledEpochs, WeightedReplacement, stretches
from wam_jax.data.drawing.weights import row_weights
from wam_jax.keys import Phase
from wam_jax.sequence.layout import RowConstants

LONGEST = 400
BUDGET = LONGEST * 2 * (4 + 2)

LENGTH_LAWS = (
    lambda _: 2,
    lambda i: 2 + i,
    lambda i: 50 - i,
    lambda i: 2 ** (1 + i % 8),
    lambda i: 2 + 90 * (i % 2),
)


@st.composite
def adversarial_lengths(draw) -> list[int]:
    """Sorted either way, alternating or of all magnitudes, with a few giants among them."""
    count, at = draw(st.integers(1, 40)), draw(st.sampled_from(LENGTH_LAWS))
    giants = draw(st.sets(st.integers(0, count - 1), max_size=3))
    return [LONGEST if i in giants else at(i) for i in range(count)]


any_lengths = st.lists(st.integers(2, 40), min_size=1, max_size=40)
equal_lengths = st.builds(lambda frames, count: [frames] * count, st.integers(2, 40), st.integers(1, 40))
lengths = any_lengths | equal_lengths | adversarial_lengths() | st.just([7])
shapes_of_updates = st.builds(UpdateShape, st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)) | st.just(
    UpdateShape(1, 1, 1)
)
stream_modes = st.sampled_from(
    [
        {"mode": "strict"},
        {"mode": "padded"},
        {"mode": "packed"},
        {"mode": "packed", "balance_ranks": False},
        *(
            {"mode": "packed", "max_tokens": BUDGET, "packer": packer, "balance_ranks": balance}
            for packer in ("in_order", "first_fit", "best_fit")
            for balance in (True, False)
        ),
    ]
)
sampler_kinds = st.sampled_from(["epoch", "replacement", "weighted", "routed"])


class Stream(NamedTuple):
    """A planner, and the law and sampler that its draws must come from."""

    planner: Planner
    law: DrawLaw

    def draws(self, first: int, count: int) -> DrawTable:
        """The global draws [first, first + count) by the law alone."""
        sampler, parts = self.planner.sampler, stretches(first, count, self.planner.draws_per_epoch)
        return concatenate([self.law.draws(p, sampler.items(p.epoch, p.start, p.count)) for p in parts])


def make_stream(frames: list[int], kind: str, fields: dict[str, Any], shape: UpdateShape, *, drop_last: bool) -> Stream:
    index = make_index(frames, tasks=["odd" if count % 2 else "even" for count in frames])
    rooms: dict[str, Any] = {"construction": {"sample_order_mode": "replacement", "replacement_weights": "length"}}
    if kind == "routed":
        routes = (("real_demo", "joint", 1.0), ("real_demo", "video_conditioned_action", 3.0))
        rooms |= {"routing": {"routes": routes}, "policy": {"program": "generalist_joint_denoising"}}
    config = tiny_config(**rooms)
    law, seed = make_law(config, index), 11
    weights = row_weights(law, index, config.data.sample_construction)
    assert weights is not None
    sampler = {
        "epoch": ShuffledEpochs(seed, Phase.TRAIN, len(law.space)),
        "replacement": Replacement(seed, Phase.TRAIN, len(law.space)),
        "weighted": WeightedReplacement(seed, Phase.TRAIN, weights),
        "routed": RoutedReplacement(seed, Phase.TRAIN, law.route_ends, law.shares, shape.ranks, weights),
    }[kind]
    # An epoch of replacement may be longer than the data; one of the shuffled order may not.
    items = len(frames) if kind == "epoch" else max(len(frames), shape.draws)
    assume(items >= shape.draws and (drop_last or items % (shape.ranks * shape.microbatch) == 0))
    batching = BatchingConfig(**fields)
    constants = RowConstants(4, 2, ranges=4, frame_axis=8, packed=batching.mode == "packed")
    per_epoch = draws_per_epoch(items, shape, drop_last=drop_last)
    return Stream(make_planner(batching, law, sampler, shape, per_epoch, constants), law)


def in_stream_order(draws: DrawTable) -> DrawTable:
    """The draws that are there, by epoch and position: [n]."""
    flat = draws.reshape(-1)
    flat = flat[np.flatnonzero(flat.present)]
    return flat[np.lexsort((flat.position, flat.epoch))]


@given(frames=lengths, kind=sampler_kinds, fields=stream_modes, shape=shapes_of_updates, drop_last=st.booleans())
@settings(max_examples=150, deadline=None)
def test_an_update_is_its_stretch_of_the_global_stream(frames, kind, fields, shape, drop_last):
    """Every property of every draw: episode and segment with repeats, geometry, text, objective."""
    stream = make_stream(frames, kind, fields, shape, drop_last=drop_last)
    for step in (0, 1, 2, 7):
        found = in_stream_order(stream.planner.plan(step).draws)
        assert equal(found, stream.draws(step * shape.draws, shape.draws))


@given(
    frames=lengths,
    kind=st.sampled_from(["epoch", "replacement", "weighted"]),
    pool=st.integers(1, 50),
    shape=shapes_of_updates,
    drop_last=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_buckets_take_whole_epochs_of_the_global_stream(frames, kind, pool, shape, drop_last):
    """The draws of each epoch, all of them once; where no tail is dropped, over as many epochs as end in an update."""
    fields = {"mode": "bucket", "bucket_pool_size": pool}
    stream = make_stream(frames, kind, fields, shape, drop_last=drop_last)
    total = int(np.lcm(stream.planner.draws_per_epoch, shape.draws))
    found = [stream.planner.plan(step).draws.reshape(-1) for step in range(total // shape.draws)]
    assert equal(in_stream_order(concatenate(found)), stream.draws(0, total))


@given(frames=lengths, fields=stream_modes | st.just({"mode": "bucket"}), shape=shapes_of_updates)
@settings(max_examples=100, deadline=None)
def test_an_epoch_drops_its_tail_of_the_stream_and_nothing_else(frames, fields, shape):
    stream = make_stream(frames, "epoch", fields, shape, drop_last=True)
    updates = len(frames) // shape.draws
    plans = [stream.planner.plan(step).draws.reshape(-1) for step in range(updates)]
    order = stream.planner.sampler.items(0, 0, len(frames))
    found = in_stream_order(concatenate(plans)).episode
    np.testing.assert_array_equal(found, stream.law.space.episodes[order[: updates * shape.draws]])
    assert in_stream_order(stream.planner.plan(updates).draws).epoch.tolist() == [1] * shape.draws


@given(frames=lengths, kind=sampler_kinds, fields=stream_modes, shape=shapes_of_updates, step=st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_every_rank_makes_every_call_and_every_sample_counts_once(frames, kind, fields, shape, step):
    draws = make_stream(frames, kind, fields, shape, drop_last=True).planner.plan(step).draws
    calls, ranks, _ = draws.shape
    assert ranks == shape.ranks
    assert draws.present.sum() == shape.draws
    assert draws.present.any(axis=(1, 2)).all()
    if fields.get("max_tokens") is None:
        assert calls == shape.accumulation
        assert (draws.present.sum(-1) == shape.microbatch).all()


@given(frames=st.lists(st.integers(2, 40), min_size=6, max_size=6), seed=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_replacement_repeats_reach_the_batches_as_often_as_they_are_drawn(frames, seed):
    """Twelve draws of six episodes must repeat some; each counts as often in the update as in the stream."""
    shape = UpdateShape(1, 3, 4)
    stream = make_stream(frames, "replacement", {"mode": "packed"}, shape, drop_last=True)
    found = np.bincount(stream.planner.plan(seed).draws.episode.ravel(), minlength=6)
    wanted = np.bincount(stream.draws(12 * seed, 12).episode, minlength=6)
    np.testing.assert_array_equal(found, wanted)
    assert found.max() > 1
