"""Parameters as pure dicts: how to make them, and how to run a model on them.

Nothing outside the model holds flax objects: optimizers, checkpoints and shardings see nested dicts of arrays whose
last key says what a leaf is: `kernel` [in, out], `bias`, `scale` (of a norm) or `table` (learned vectors that are added
or looked up). Leaves under `blocks` lead with the layer axis. The tree, w and a being the experts' widths:

    video_expert/
        patch_embedding/{kernel, bias}                      C * ph * pw -> w
        text_embedding/{hidden, output}/{kernel, bias}      text_dim -> w -> w
        time_embedding/mlp/{hidden, output}/{kernel, bias}  freq_dim -> w -> w
        time_embedding/modulation/{kernel, bias}            w -> 6 w
        blocks/modulation/table                             [layers, 6, w]
        blocks/{self_attention, cross_attention}/
            {query, key, value, output}/{kernel, bias}      w -> heads * head_dim -> w
            {query_norm, key_norm}/scale                    [layers, heads * head_dim]
        blocks/cross_norm/{scale, bias}                     with cross_attn_norm
        blocks/feed_forward/{hidden, output}/{kernel, bias} w -> ffn -> w
        head/modulation/table                               [2, w]
        head/projection/{kernel, bias}                      w -> ph * pw * C
    action_expert/                                          the same with a for w, but
        action_embedding/{kernel, bias}                     D -> a
        text_embedding/{kernel, bias}                       text_dim -> a
        head/projection/{kernel, bias}                      a -> D
        context_projection/{kernel, bias}                   w -> a, with additive proprio, where w != a
    proprio_encoder/{kernel, bias}                          state_dim -> w, with additive proprio
    text_context/proprio_encoder/{kernel, bias}             state_dim -> text_dim, with proprio as text
    text_context/mode/table                                 [3, text_dim], with mode tokens
"""

import functools
from typing import Any

import jax
from flax import nnx

from wam_jax.model.action_init import initialise_action_expert
from wam_jax.model.config import ModelConfig
from wam_jax.model.dual_expert import DualExpert
from wam_jax.model.shards import gather, mark, part_axis

type Params = dict[str, Any]
"""Nested dicts with arrays at the leaves."""

type Shape = tuple[int, ...]


def init_params(config: ModelConfig, key: jax.Array) -> Params:
    """Initial parameters, those of the action expert taken from the video expert where the configuration says so.

    Pure: may be compiled (`jax.jit(init_params, static_argnums=0)`), also straight into shards, or shape-evaluated.
    """
    model = DualExpert(config, rngs=nnx.Rngs(key))
    return initialise_action_expert(nnx.to_pure_dict(nnx.state(model, nnx.Param)), config.action_init)


def abstract_params(config: ModelConfig) -> Params:
    """The tree of `init_params` with `jax.ShapeDtypeStruct` leaves; allocates nothing."""
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


def merge(config: ModelConfig, params: Params) -> DualExpert:
    """The model with these parameters, for use inside the function that was given them.

    Inside `jax.shard_map` they may be the parts of a device, each split along one axis over "fsdp": those outside the
    stacks are made whole here, those of a layer when it runs (`wam_jax.model.shards`).

    Raises:
        ValueError: if the names or shapes are not those of `config`.
    """
    graph, shapes = _template(config)
    axes = _split_axes({_name(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(params)}, shapes)

    def used(path: Any, leaf: jax.Array) -> jax.Array:
        axis = axes[_name(path)]
        return leaf if axis is None or _is_stacked(_name(path)) else gather(leaf, axis, config.dtype)

    model = nnx.merge(graph, jax.tree.map_with_path(used, params))
    for path, variable in nnx.iter_graph(model):
        name = "/".join(map(str, path))
        axis = axes.get(name) if isinstance(variable, nnx.Variable) and _is_stacked(name) else None
        if axis is not None:
            mark(variable, axis, config.dtype)
    return model


def _split_axes(have: dict[str, Shape], wanted: dict[str, Shape]) -> dict[str, int | None]:
    """Along which axis each parameter is split; raises the error of `merge`."""
    axes, wrong = {}, sorted(have.keys() ^ wanted.keys())
    for name in have.keys() & wanted.keys():
        try:
            axes[name] = part_axis(have[name], wanted[name])
        except ValueError:
            wrong.append(name)
    if wrong:
        name = min(wrong)
        shown = f"{name} is {have.get(name)} and should be {wanted.get(name)}"
        raise ValueError(f"{len(wrong)} parameters are not those of this configuration: {shown}")
    return axes


def _is_stacked(name: str) -> bool:
    return "blocks" in name.split("/")


@functools.lru_cache
def _template(config: ModelConfig) -> tuple[nnx.GraphDef[DualExpert], dict[str, Shape]]:
    """The model without its parameters, and the shape that belongs under each name."""
    model = nnx.eval_shape(lambda: DualExpert(config, rngs=nnx.Rngs(0)))
    leaves = jax.tree.leaves_with_path(nnx.to_pure_dict(nnx.state(model, nnx.Param)))
    return nnx.graphdef(model), {_name(path): leaf.shape for path, leaf in leaves}


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
