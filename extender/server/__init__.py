"""The HTTP service that kube-scheduler calls."""
