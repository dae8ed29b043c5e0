"""The interfaces of video and text encoders, and stand-ins that need no weights."""
