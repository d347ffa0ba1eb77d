"""Nodes full of gangs of low priority, and then gangs of high priority."""
