# SPDX-License-Identifier: Apache-2.0
"""A command under settings that are in force only while it runs, and the drain after it."""
