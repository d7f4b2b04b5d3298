"""The command line: one file per command, which parses, calls the core and shows the result."""

import gc

# Python looks for garbage after 700 new objects. Imports make many, which stay: looking took about a tenth of a start.
gc.set_threshold(10_000)
