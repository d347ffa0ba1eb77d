"""The tools that people run at a desk: the command line, and all that it shows and checks."""
