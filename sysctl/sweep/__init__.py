# SPDX-License-Identifier: Apache-2.0
"""The order of a sweep's trials, decided from its results; without root."""
