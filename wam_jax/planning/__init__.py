"""Plans: the programs of a run compiled for devices that need not be there, and what they will take of them."""
