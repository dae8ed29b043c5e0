"""How draws share rows: grouping by mode, packing under a budget, dealing to ranks, and the ladder of static sizes.

Pure functions of lengths, in NumPy: nothing here reads a payload or knows a device.
"""
