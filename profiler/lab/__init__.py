# SPDX-License-Identifier: Apache-2.0
"""The lab: an emulated EBS volume, a small instance's memory and an S3 endpoint on localhost."""
