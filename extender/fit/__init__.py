"""The packer: it finds room for pods on nodes, for gangs and for the queue; pure."""
