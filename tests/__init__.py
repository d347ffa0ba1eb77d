"""Tests: unit, properties, protocol, cluster; `harness` is the control plane they run on."""
