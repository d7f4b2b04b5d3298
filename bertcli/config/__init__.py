"""The options of each command, declared once, and recipes."""
