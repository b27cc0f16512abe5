"""Measured figures: the product against raw limits, in one run."""

import node  # noqa: F401  before numpy: it sets how many threads numpy takes, as in a peer
