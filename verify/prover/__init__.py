"""The only sub-package that imports a solver."""
