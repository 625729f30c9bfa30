"""The two-link arm in motion: what of its angles is found, and what stands in the way."""
