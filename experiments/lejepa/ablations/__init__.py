"""Ablations of LeJEPA (tables 1 and 4): settings, the paper's contrasts, the experiment."""
