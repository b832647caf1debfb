# SPDX-License-Identifier: Apache-2.0
"""Measure it and show it: probes, S3 pulls, the lab, reports and the command line."""
