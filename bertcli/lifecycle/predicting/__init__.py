"""What `bert predict` reads, writes and explains."""
