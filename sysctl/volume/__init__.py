# SPDX-License-Identifier: Apache-2.0
"""Plan a pull on an EBS volume of an EC2 instance: limits, credits, time, price."""
