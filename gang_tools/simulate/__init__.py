"""`gang-extender simulate`: the decisions of both processes in virtual time."""
