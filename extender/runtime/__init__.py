"""Asyncio that knows no Kubernetes."""
