//! msgstore.h for Zig: a static library with the implementations of msgstore.h and
//! msgstore_ffi.h, and the headers.
//!
//!     const dep = b.dependency("msgstore", .{ .target = target, .optimize = optimize });
//!     exe.linkLibrary(dep.artifact("msgstore"));
const std = @import("std");

pub fn build(b: *std.Build) void {
    const target = b.standardTargetOptions(.{});
    const optimize = b.standardOptimizeOption(.{});
    const stb = b.option([]const u8, "stb", "folder of stb_ds.h") orelse "/usr/include/stb";
    const module = b.createModule(.{
        .target = target,
        .optimize = optimize,
        .link_libc = true,
    });
    module.addIncludePath(.{ .cwd_relative = stb });
    module.addCSourceFile(.{
        .file = b.addWriteFiles().add("msgstore.c",
            \\#define MSGSTORE_IMPLEMENTATION
            \\#define MSGSTORE_FFI_IMPLEMENTATION
            \\#include "msgstore.h"
            \\#include "bindings/msgstore_ffi.h"
            \\
        ),
        .flags = &.{"-std=c99"},
    });
    module.addIncludePath(b.path("."));
    const lib = b.addLibrary(.{ .name = "msgstore", .linkage = .static, .root_module = module });
    lib.installHeader(b.path("msgstore.h"), "msgstore.h");
    lib.installHeader(b.path("bindings/msgstore_ffi.h"), "msgstore_ffi.h");
    lib.installHeader(b.path("bindings/cpp/msgstore.hpp"), "msgstore.hpp");
    b.installArtifact(lib);
}
