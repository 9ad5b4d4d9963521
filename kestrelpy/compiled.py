"""Which kestrelpy this is: compiled, or pure Python from the same source (`make compile`).

One rule: nothing else asks. Both do the same, one of them sooner.
"""

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
KIND: Final = "compiled" if IS_COMPILED else "pure Python"
