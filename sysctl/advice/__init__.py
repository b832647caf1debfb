"""Results to advice: which setting, why, at what price, and why not the others."""
