"""Reliability: runs that are killed, signalled, damaged and lied to, and what came of it."""
