# SPDX-License-Identifier: Apache-2.0
"""What to measure and what is allowed: contracts, their statistics and their evaluation."""
