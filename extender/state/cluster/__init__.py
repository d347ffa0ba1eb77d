"""The state of the cluster: nodes, pods, PodGroups, Jobs, and the room on nodes."""
