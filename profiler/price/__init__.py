"""What a setting costs programs beside the pull: a neighbour on the volume, and memory."""
