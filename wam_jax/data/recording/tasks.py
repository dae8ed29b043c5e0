"""The tasks that a recording can hold, with the sentences that describe them.

Names are those of Meta-World without the version (`drawer-open` is `drawer-open-v3` there). The sentences are ours,
two per task, told apart by the parity of the seed. Any other Meta-World task is described by its name.
"""

VERSION = "v3"

SENTENCES: dict[str, tuple[str, ...]] = {
    "bin-picking": ("move the object from one bin to the other", "pick the green block and drop it into the other bin"),
    "button-press-topdown": ("press the button from above", "push the button down from the top"),
    "disassemble": ("lift the nut off the peg", "take the wrench off the peg"),
    "door-unlock": ("turn the door lock to unlock it", "unlock the door"),
    "drawer-open": ("pull the drawer open", "open the drawer"),
    "faucet-open": ("turn the faucet on", "rotate the faucet handle counter-clockwise"),
    "handle-press": ("press the handle all the way down", "push down on the red handle"),
    "peg-unplug-side": ("pull the peg out of the socket", "unplug the peg sideways"),
    "pick-place": ("pick up the puck and bring it to the target", "grasp the red puck and move it to the goal"),
    "plate-slide-back-side": ("slide the plate sideways out of the cabinet", "pull the plate out to the side"),
    "stick-pull": ("use the stick to pull the box", "grasp the stick and drag the box with it"),
    "window-open": ("slide the window open", "push the window handle to open it"),
}

DEFAULT_TASKS = tuple(SENTENCES)


def instruction_of(task: str, seed: int) -> str:
    """The prompt of the episode that `seed` gives."""
    sentences = SENTENCES.get(task, (task.replace("-", " "),))
    return sentences[seed % len(sentences)]
