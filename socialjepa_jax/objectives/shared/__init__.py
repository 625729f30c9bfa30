"""Pieces that several objectives share."""
