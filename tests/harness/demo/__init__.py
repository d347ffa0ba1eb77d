"""The story behind `gang-extender demo`: its scenes on a control plane of its own."""
