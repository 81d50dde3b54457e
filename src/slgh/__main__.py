"""`python -m slgh` is the command `slgh`."""

from slgh.cli import app

if __name__ == "__main__":
    app(prog_name="slgh")
