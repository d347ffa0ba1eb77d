"""The built-in kinds of jobs, one file for each family; `operated` is a helper of several."""
