"""The number of slices SIGReg needs: theory, measurements and the experiment."""
