"""The command-line alignment tool's parts: input files, a study of a map, and output files."""
