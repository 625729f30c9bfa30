"""Parts of the command-line alignment tool: input files, the study of a map, output files."""
