"""Pull clients against each other: the same objects, in turns, by every client."""
