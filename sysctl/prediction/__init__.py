"""What a pull would take under settings, with memory or of a size that were not measured."""
