"""The story behind `gang-extender demo`: three scenes on a control plane of its own."""
