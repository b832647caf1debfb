"""What a setting costs other programs: a neighbour on the volume, and memory."""
