"""Looking at a store with a trainer's eyes: what is sound as data and hurts all the same."""
