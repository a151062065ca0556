#: The version of this package.
__version__ = "3.0.0a0"

#: That of the contract it is made of.
CONTRACT = "3.0.0-alpha"
