# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep and what they show: noise, comparisons, prices and predictions."""
