"""The live page: what waits and why, who has what, and which room is kept; it changes nothing."""
