"""The product beside the operators of others, run as they are released (`make test-partners`)."""
