"""Experiments on SIGReg itself: quadrature, slices, resampling, tests of normality."""
