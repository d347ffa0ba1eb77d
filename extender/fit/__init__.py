"""Where pods find room on nodes: one packer for gangs and for the queue; pure."""
