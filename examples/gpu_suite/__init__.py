"""A GPU-like test suite that runs anywhere: its tests sleep as long as real ones compute.

`by_hand/` is a small suite to read: one file for each mode. `python -m examples.gpu_suite OUT` writes a large one.
"""
