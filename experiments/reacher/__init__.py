"""DMC Reacher from pixels: what the published experiment shows, and what breaks it."""
