"""A configuration mistake is told once, in the operator's words: file, key, value and what is allowed."""


class ConfigError(Exception):
    """A profile or an agent's file cannot be used; the message is complete and meant for a person."""
