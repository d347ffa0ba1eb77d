"""The built-in kinds of jobs, one file for each family."""
