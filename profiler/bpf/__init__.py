"""The kernel side: BPF programs, how they are loaded and what they count."""
