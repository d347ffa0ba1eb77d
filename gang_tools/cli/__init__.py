"""The command line: each command reads its options, makes one call and answers with a code."""
