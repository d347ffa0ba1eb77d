"""What people run at a desk: the command line, and what it shows, checks and simulates."""
