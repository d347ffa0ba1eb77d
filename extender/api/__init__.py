"""Wire types by API group and version, and the names and reasons that users rely on."""
