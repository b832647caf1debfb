# SPDX-License-Identifier: Apache-2.0
"""Metrics: their definitions, and how values leave: Prometheus, a textfile, OTLP."""
