# SPDX-License-Identifier: Apache-2.0
"""Pulling objects from S3: workers, a safe destination, and verification of what arrived."""
