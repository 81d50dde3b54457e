"""Adapters for other libraries, one module per library, on the public API of slgh.

Import each module by its name, for example `slgh.integrations.mlflow`. It needs only its own library. If the library is
missing, the error names the extra to install.
"""
