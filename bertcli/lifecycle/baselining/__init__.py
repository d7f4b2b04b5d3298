"""The methods of `bert baseline`, one file each, and how they are saved and run."""
