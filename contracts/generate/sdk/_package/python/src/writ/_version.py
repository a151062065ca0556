#: The version of this package.
__version__ = "«.PythonVersion»"

#: That of the contract it is made of.
CONTRACT = "«.Version»"
