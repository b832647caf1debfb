"""What to change and why: knobs, safe host changes, sweeps and advice."""
