"""What an earlier release left in a cluster, and how it is put there again."""
