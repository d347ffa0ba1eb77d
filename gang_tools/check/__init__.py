"""`gang-extender check`: facts of a cluster are read, then judged without I/O."""
