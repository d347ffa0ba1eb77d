"""A real Kubernetes control plane on localhost, for tests, the demo and the benchmarks."""
