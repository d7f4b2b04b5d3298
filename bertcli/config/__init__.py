"""The options of each command, declared once; recipes read and checked."""
