"""The command line: one file per command, which parses, calls the core and shows the result."""
