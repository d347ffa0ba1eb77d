"""The live page in a real browser, before the real control plane (`make test-page`)."""
