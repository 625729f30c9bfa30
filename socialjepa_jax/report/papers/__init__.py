"""The numbers that the papers print, as data."""
