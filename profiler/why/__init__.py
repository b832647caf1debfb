"""Why writes took their time: write-back and the disks watched beside them, and the causes."""
