"""Pull clients: one module for each client or family of programs."""
