# SPDX-License-Identifier: Apache-2.0
"""What an EC2 node reports about itself: its instance type and its volumes."""
