"""What the host and its processes do while something runs, and the causes of the writes' time."""
