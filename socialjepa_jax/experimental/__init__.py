"""Experimental parts, which nothing else in the package imports."""
