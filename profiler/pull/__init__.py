"""Pulling objects from S3: workers, a safe destination, and verification of what arrived."""
