"""Trajectory stores: their format; reading, writing, checking, splitting and mixing them."""
