"""What the runs of a sweep show: results, noise, comparisons, prices and predictions."""
