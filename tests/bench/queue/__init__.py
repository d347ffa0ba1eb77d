"""How fast Workloads are admitted under quota, on a real API server with mimicked execution."""
