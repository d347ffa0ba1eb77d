"""Every kind of job as one: what it asks for, how it is started and stopped. No I/O."""
