"""`make bench-extender`: the extender alone, between two stand-ins."""
