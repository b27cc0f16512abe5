"""The wire and event language of the mesh: ids, clocks, frontiers, events, messages, errors and limits.

Everything here is pure: no clock, randomness, files, sockets or logging.  The other folders import this one;
it imports none of them.
"""
