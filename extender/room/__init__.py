"""Whether what has quota fits on nodes too; pure, and above both quota and gangs."""
