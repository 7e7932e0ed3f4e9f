"""The exact mapper: cost-to-go tables over tile shapes, and a branch and bound that they guide.

docs/exact-mapper.md explains them.
"""
