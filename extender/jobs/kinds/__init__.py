"""The kinds of jobs that are built in, one file for each kind."""
