"""The demo: a short story that a real mesh of three peers plays, every sentence of it checked.

`python -m deploy.demo.story` plays it; `story` is the place to start reading.
"""
