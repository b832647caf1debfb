"""What the three packages rest on: units, text, errors, files and programs that can be trusted."""
