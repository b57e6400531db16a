"""Tags the wheel: any Python 3, and the platform of the command that it carries."""

import os

from setuptools import setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """A wheel for the platform that FEDSIM_WHEEL_PLATFORM names."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> "tuple[str, str, str]":
        platform = os.environ.get("FEDSIM_WHEEL_PLATFORM")
        return "py3", "none", platform or super().get_tag()[2]


setup(cmdclass={"bdist_wheel": Wheel})
