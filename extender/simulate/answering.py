"""What would become of a job, before it is created."""
class UnknownJobError(Exception): pass
