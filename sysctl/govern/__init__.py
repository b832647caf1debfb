# SPDX-License-Identifier: Apache-2.0
"""When to raise the dirty thresholds for a burst, how far, and when to lower them. All pure."""
