# SPDX-License-Identifier: Apache-2.0
"""A recommendation for a whole fleet, stage by stage, with a gate between the stages."""
