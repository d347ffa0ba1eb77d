"""What travels on the wire, one module per group and version, and the names that users rely on."""
