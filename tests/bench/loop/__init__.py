"""How long one step of either process holds its event loop."""
