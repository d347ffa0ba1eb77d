"""The one place that puts the parts together and runs them."""
