"""Faults on a real mesh: a workload, an injector, a history, and checkers that read nothing but the history."""
