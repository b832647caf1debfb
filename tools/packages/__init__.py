"""The .deb and the .rpm: `make packages` builds them into dist/."""
