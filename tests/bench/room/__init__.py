"""What room on nodes adds to quota: real Jobs on fragmented nodes, with room asked for and not."""
