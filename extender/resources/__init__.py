"""Quantities and the resources that a pod asks for, as plain integers."""
