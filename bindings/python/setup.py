"""Builds the shared library from the headers and puts it into the wheel.

The wheel is tagged py3-none-PLATFORM: the library is called with ctypes, so one wheel
serves every version of Python. A C compiler (CC) and stb_ds.h (Debian: libstb-dev; else
STB_INC=folder) are needed to build it, not to use it.
"""

import os
import pathlib
import shlex
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # older setuptools
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"win32": "msgstore.dll", "darwin": "libmsgstore.dylib"}


def find(name, folders):
    for folder in folders:
        if folder and (pathlib.Path(folder) / name).is_file():
            return str(folder)
    raise SystemExit(f"{name} was found in none of: {', '.join(map(str, folders))}")


class Build(build_py):
    def run(self):
        super().run()
        header = find("msgstore.h", [HERE.parent.parent, HERE / "csrc"])
        interface = find("msgstore_ffi.h", [HERE.parent, HERE / "csrc"])
        stb = find(
            "stb_ds.h",
            [os.environ.get("STB_INC"), HERE / "csrc", "/usr/include/stb", "/usr/include",
             "/usr/local/include", "/usr/local/include/stb"],
        )
        target = pathlib.Path(self.build_lib) / "msgstore"
        target.mkdir(parents=True, exist_ok=True)
        library = target / NAMES.get(sys.platform, "libmsgstore.so")
        command = shlex.split(os.environ.get("CC", "cc")) + [
            "-std=c99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
            "-DNDEBUG", "-DMSGSTORE_IMPLEMENTATION", "-DMSGSTORE_FFI_IMPLEMENTATION",
            "-DMS_API=extern __attribute__((visibility(\"default\")))",
            "-I", stb, "-include", str(pathlib.Path(header) / "msgstore.h"),
            "-x", "c", str(pathlib.Path(interface) / "msgstore_ffi.h"), "-o", str(library),
        ]
        subprocess.run(command, check=True)


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
