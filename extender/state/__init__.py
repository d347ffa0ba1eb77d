"""The belief about the cluster: facts enter through one writer, decisions read views."""
