"""Shells that act on what changed in the state."""
