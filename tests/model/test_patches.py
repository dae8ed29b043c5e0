"""The two token orders, entry by entry."""

import numpy as np

from tests.model.rows import Array, normal, tiny
from wam_jax.model.patches import patchify, unpatchify

CONFIG = tiny(latent_channels=3, latent_height=4, latent_width=6, patch_size=(1, 2, 3))


def _frame() -> Array:
    return np.arange(3 * 4 * 6, dtype=np.float32).reshape(3, 4, 6)


def test_a_token_goes_in_channel_first() -> None:
    frame = _frame()
    tokens = np.asarray(patchify(frame[None], CONFIG))[0]
    assert tokens.shape == (4, 18)
    np.testing.assert_array_equal(tokens[1], frame[:, 0:2, 3:6].reshape(-1))
    np.testing.assert_array_equal(tokens[2], frame[:, 2:4, 0:3].reshape(-1))


def test_a_token_comes_out_channel_last() -> None:
    frame = _frame()
    patches = [frame[:, row : row + 2, column : column + 3] for row in (0, 2) for column in (0, 3)]
    tokens: Array = np.stack([patch.transpose(1, 2, 0).reshape(-1) for patch in patches])
    np.testing.assert_array_equal(np.asarray(unpatchify(tokens[None], CONFIG))[0], frame)


def test_leading_axes_are_frames_of_their_own() -> None:
    frames = normal(2, 5, 3, 4, 6)
    np.testing.assert_array_equal(patchify(frames, CONFIG)[1, 3], patchify(frames[1, 3], CONFIG))
    tokens = patchify(frames, CONFIG)
    np.testing.assert_array_equal(unpatchify(tokens, CONFIG)[1, 3], unpatchify(tokens[1, 3], CONFIG))
