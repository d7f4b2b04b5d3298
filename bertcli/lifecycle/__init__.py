"""The core of each command."""
