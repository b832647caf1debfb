"""The order of a sweep's trials, from the results alone; no root."""
