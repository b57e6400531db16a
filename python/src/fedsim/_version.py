"""The version of the package, which a test compares with the command's."""

__version__ = "0.1.0.dev0"
