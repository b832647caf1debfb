"""What to measure and what is allowed: contracts, their statistics and their evaluation."""
