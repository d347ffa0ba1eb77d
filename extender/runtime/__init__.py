"""Asyncio without Kubernetes."""
