"""Throughput and latency beside the plain kube-scheduler, on a real control plane."""
