"""The pages of the stand-alone alignment tool."""
