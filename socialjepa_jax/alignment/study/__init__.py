"""The stand-alone tool: files of embeddings in; a map, intervals, nulls and references out."""
