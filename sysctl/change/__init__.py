"""A recommended change as data: made by advice, rendered and applied."""
