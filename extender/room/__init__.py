"""Decides if workloads with quota also fit on nodes; pure, and above both quota and gangs."""
