"""The manifest: what it says, and what it refuses to be read from."""

import dataclasses
import json

import pytest

from tests.support.stores import tiny_encoder
from wam_jax.data.storage.manifest import (
    SCHEMA,
    Dims,
    FieldStatistics,
    Manifest,
    PayloadRecord,
    ShardRecord,
    parse_manifest,
)
from wam_jax.errors import InputError

MANIFEST = Manifest(
    schema=SCHEMA,
    num_episodes=3,
    actions_per_frame=4,
    dims=Dims(channel=48, height=8, width=8, action_dim=4, text_dim=64),
    encoder=tiny_encoder(48),
    text=None,
    payload=PayloadRecord("array_record", shards=(ShardRecord("payload-00000.array_record", 10, 3),)),
    index_fingerprint="abc",
    statistics={"actions": FieldStatistics((1,), (0.5,), (1.0,), (0.0,), (1.0,))},
    provenance={"seeds": {"reach": [1, 2]}},
)


def parsed(**changes):
    return parse_manifest(json.dumps(json.loads(MANIFEST.to_json()) | changes), source="store.json")


def test_it_survives_a_round_trip():
    assert parsed() == MANIFEST


def test_keys_of_a_later_addition_are_ignored():
    assert parsed(later=1) == MANIFEST


def test_the_units_are_those_of_its_encoder():
    assert MANIFEST.units.extent("observation", 5) == 17
    assert MANIFEST.units.extent("slot", 5) == 20


@pytest.mark.parametrize("schema", ["wam_jax.store.v2", None])
def test_another_schema_is_refused(schema):
    with pytest.raises(InputError, match=r"store.json: schema = .*this version reads 'wam_jax.store.v1'"):
        parsed(schema=schema)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_episodes": "3"}, "num_episodes = '3': of type int"),
        ({"num_episodes": True}, "num_episodes = True: of type int"),
        ({"num_episodes": 0}, "num_episodes = 0: at least 1"),
        ({"dims": {"channel": 48}}, "dims: height = None: is missing and required"),
        ({"dims": 3}, "dims = 3: a JSON object"),
        ({"payload": {"format": "zip"}}, "payload.format = 'zip': one of"),
        ({"payload": {"format": "array_record", "shards": {}}}, "shards = {}: a JSON list"),
        ({"statistics": []}, "a JSON object"),
        ({"encoder": dataclasses.asdict(tiny_encoder(16))}, r"encoder.channels = 16: dims.channel is 48"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        parsed(**changes)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_what_is_no_manifest_is_refused(text):
    with pytest.raises(InputError, match="here"):
        parse_manifest(text, source="here")


def test_the_fingerprint_is_of_the_data_alone():
    same = dataclasses.replace(MANIFEST, payload=PayloadRecord("safetensors"), statistics={}, provenance={})
    assert same.fingerprint == MANIFEST.fingerprint
    others = [{"index_fingerprint": "abd"}, {"actions_per_frame": 2}, {"encoder": tiny_encoder(48, temporal_stride=8)}]
    assert MANIFEST.fingerprint not in {dataclasses.replace(MANIFEST, **other).fingerprint for other in others}
