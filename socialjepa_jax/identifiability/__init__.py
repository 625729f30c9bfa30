"""When a learned representation recovers the world: worlds, metrics, spectra and baselines.

Processes and mixings make worlds whose latents are known; metrics measure what an encoder kept of
them; spectra predict it; slow feature analysis, planning and control use it.
"""
