"""The one place that puts the parts together and knows what runs."""
