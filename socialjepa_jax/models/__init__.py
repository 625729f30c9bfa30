"""Networks: encoders, predictors, decoders and patch masks, as Flax NNX modules."""
