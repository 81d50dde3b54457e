"""Adapters for other libraries, one module per library, on the public API of slgh.

Each module is imported on its own, so that none of the other libraries has to be installed: for example
`slgh.integrations.mlflow.MLflowCallback`. A missing library is an error that names the extra to install.
"""
