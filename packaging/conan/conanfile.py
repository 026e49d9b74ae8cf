"""A header-only recipe: conan create packaging/conan. stb_ds comes from Conan's own stb."""

import os
import re

from conan import ConanFile
from conan.tools.files import copy, load


class MsgstoreConan(ConanFile):
    name = "msgstore"
    description = "message store for agent programs, a single-header C library"
    license = ("MIT", "Unlicense")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"with_stb": [True, False]}
    default_options = {"with_stb": True}
    no_copy_source = True

    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._root(), "msgstore.h"))
        self.version = re.search(r'#define MSGSTORE_VERSION "(.*?)"', header).group(1)

    def export_sources(self):
        for name in ("msgstore.h", "bindings/msgstore_ffi.h", "bindings/cpp/msgstore.hpp",
                     "LICENSE"):
            copy(self, name, self._root(), self.export_sources_folder)

    def requirements(self):
        if self.options.with_stb:
            self.requires("stb/[>=cci.20230920]", transitive_headers=True)

    def package(self):
        include = os.path.join(self.package_folder, "include")
        copy(self, "msgstore.h", self.source_folder, include)
        copy(self, "msgstore_ffi.h", os.path.join(self.source_folder, "bindings"), include)
        copy(self, "msgstore.hpp", os.path.join(self.source_folder, "bindings", "cpp"),
             include)
        copy(self, "LICENSE", self.source_folder,
             os.path.join(self.package_folder, "licenses"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "msgstore")
        self.cpp_info.set_property("cmake_target_name", "msgstore::msgstore")
        if not self.options.with_stb:
            self.cpp_info.defines = ["MSGSTORE_NO_FORMATS"]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
