"""Experiments of the identifiability paper (When does LeJEPA learn a world model?)."""
