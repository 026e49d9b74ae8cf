"""Builds the shared library from the headers and puts it into the wheel.

The wheel is tagged py3-none-PLATFORM: the library is called with ctypes, so one wheel
serves every version of Python. The source archive has the headers in csrc/, so that a C
compiler (CC) is all that its wheel needs. In a checkout csrc/ and LICENSE are copied from
the project; stb_ds.h comes from STB_INC or from the system (Debian: libstb-dev).
"""

import os
import pathlib
import shlex
import shutil
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
CSRC = HERE / "csrc"
PROJECT = HERE.parent.parent
NAMES = {"win32": "msgstore.dll", "darwin": "libmsgstore.dylib"}
STB = [os.environ.get("STB_INC"), str(PROJECT), "/usr/include/stb", "/usr/include",
       "/usr/local/include", "/usr/local/include/stb"]
COPIES = [
    (CSRC / "msgstore.h", [PROJECT]),
    (CSRC / "msgstore_ffi.h", [HERE.parent]),
    (CSRC / "stb_ds.h", STB),
    (HERE / "LICENSE", [PROJECT]),
]


def vendor():
    """Copies what the archive needs from the checkout; keeps what is there without one."""
    for target, folders in COPIES:
        sources = [pathlib.Path(f) / target.name for f in folders if f]
        found = next((s for s in sources if s.is_file()), None)
        if found is not None:
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(found, target)
        elif not target.is_file():
            help = ("\nInstall it (Debian, Ubuntu: sudo apt-get install libstb-dev), or set "
                    "STB_INC to the folder that has it." if target.name == "stb_ds.h" else "")
            raise SystemExit(f"{target.name} was found in none of: "
                             f"{', '.join(str(s.parent) for s in sources)}{help}")


class Build(build_py):
    def run(self):
        super().run()
        target = pathlib.Path(self.build_lib) / "msgstore"
        target.mkdir(parents=True, exist_ok=True)
        library = target / NAMES.get(sys.platform, "libmsgstore.so")
        command = shlex.split(os.environ.get("CC", "cc")) + [
            "-std=c99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
            "-DNDEBUG", "-DMSGSTORE_IMPLEMENTATION", "-DMSGSTORE_FFI_IMPLEMENTATION",
            "-DMS_API=extern __attribute__((visibility(\"default\")))",
            "-I", str(CSRC), "-include", str(CSRC / "msgstore.h"),
            "-x", "c", str(CSRC / "msgstore_ffi.h"), "-o", str(library),
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


vendor()
setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
