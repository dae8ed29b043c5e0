"""Looking at a store: whether it keeps what the format promises, and what is sound and hurts training all the same."""
