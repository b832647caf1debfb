"""What runs beside the thing profiled, and waits for its end; the result is a `Profile`."""
