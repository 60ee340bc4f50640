"""Compile regex, JSON Schema and grammar text into byte and token automata; no torch, no engine."""
