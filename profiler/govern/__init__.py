# SPDX-License-Identifier: Apache-2.0
"""`writewise govern` on this host: reads samples, puts decisions in force, reports to systemd."""
