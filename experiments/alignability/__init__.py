"""Experiments: does training add linear alignability?"""
