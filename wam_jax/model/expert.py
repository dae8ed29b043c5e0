"""The two experts: how each embeds its stream, its timesteps and its text, its stack of blocks and its head.

The experts are alike but for their token embedding and their text projection: the video expert passes text through two
layers, the action expert through one.
"""

import jax
from flax import nnx

from wam_jax.model.block import ExpertBlock
from wam_jax.model.config import ExpertSize, ModelConfig
from wam_jax.model.heads import ModulatedHead
from wam_jax.model.layers import Mlp, gelu, linear
from wam_jax.model.patches import patchify, unpatchify
from wam_jax.model.timesteps import TimeEmbedding


def stacked_blocks(config: ModelConfig, size: ExpertSize, *, rngs: nnx.Rngs) -> ExpertBlock:
    """All layers as one block whose parameters lead with the layer axis. Layer i does not depend on their number."""
    keys = jax.random.split(rngs.params(), config.num_layers)
    return nnx.vmap(lambda key: ExpertBlock(config, size, rngs=nnx.Rngs(key)))(keys)


class VideoExpert(nnx.Module):
    """The video stream: latent frames [R, Nv, C, H, W]."""

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        width = config.video.width
        self.patch_embedding = linear(config, config.patch_dim, width, rngs=rngs)
        self.time_embedding = TimeEmbedding(config, width, rngs=rngs)
        self.text_embedding = Mlp(config, (config.text_dim, width, width), activation=gelu, rngs=rngs)
        self.blocks = stacked_blocks(config, config.video, rngs=rngs)
        self.head = ModulatedHead(config, width, config.patch_dim, rngs=rngs)

    def embed(self, latents: jax.Array) -> jax.Array:
        """[R, Nv, C, H, W] to tokens [R, Nv, P, width]."""
        return self.patch_embedding(patchify(latents, self.config))

    def predict(self, hidden: jax.Array, time: jax.Array) -> jax.Array:
        """Hidden [..., P, width] and raw time embedding [..., width] to a velocity [..., C, H, W]."""
        return unpatchify(self.head(hidden, time[..., None, :]), self.config)


class ActionExpert(nnx.Module):
    """The action stream: slots [R, Na, A, D].

    A state added to the tokens comes in the video expert's width; where the widths are equal it is taken as it is, else
    `context_projection` brings it to this expert's.
    """

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        width = config.action.width
        self.action_embedding = linear(config, config.action_dim, width, rngs=rngs)
        self.time_embedding = TimeEmbedding(config, width, rngs=rngs)
        self.text_embedding = linear(config, config.text_dim, width, rngs=rngs)
        self.blocks = stacked_blocks(config, config.action, rngs=rngs)
        self.head = ModulatedHead(config, width, config.action_dim, rngs=rngs)
        projects = config.proprio == "per_chunk_additive" and width != config.video.width
        self.context_projection = linear(config, config.video.width, width, rngs=rngs) if projects else None

    def embed(self, actions: jax.Array) -> jax.Array:
        """[R, Na, A, D] to tokens [R, Na, A, width]."""
        return self.action_embedding(actions)

    def project_context(self, context: jax.Array) -> jax.Array:
        """A hidden vector of the video expert's width, [..., video width], to this expert's."""
        return context if self.context_projection is None else self.context_projection(context)

    def predict(self, hidden: jax.Array, modulation: jax.Array) -> jax.Array:
        """Hidden [..., A, width] and shift and scale [..., 2, width] to a velocity [..., A, D]."""
        return self.head(hidden, modulation)
