//! Compiles msgstore.h with its flat interface into a static library. The headers are in
//! csrc/ of a packaged crate; in a checkout they are at the top and in bindings/. stb_ds.h
//! comes from csrc/, from the folder in STB_INC, or from the usual places.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The first of these folders that has the file.
fn find(name: &str, folders: &[PathBuf]) -> PathBuf {
    match folders.iter().find(|folder| folder.join(name).is_file()) {
        Some(folder) => {
            println!("cargo:rerun-if-changed={}", folder.join(name).display());
            folder.clone()
        }
        None => panic!("{name} is in none of {folders:?}"),
    }
}

fn main() {
    println!("cargo:rerun-if-env-changed=STB_INC");
    println!("cargo:rerun-if-changed=build.rs");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let own = here.join("csrc");
    let header = find("msgstore.h", &[own.clone(), here.join("../../..")]);
    let flat = find("msgstore_ffi.h", &[own.clone(), here.join("../..")]);
    let mut places = vec![own, here.join("../../..")]; // the archive of a release has it
    places.extend(env::var_os("STB_INC").map(PathBuf::from));
    for place in ["/usr/include/stb", "/usr/include", "/usr/local/include/stb",
                  "/usr/local/include", "/opt/homebrew/include/stb"] {
        places.push(Path::new(place).to_path_buf());
    }
    let stb = find("stb_ds.h", &places);
    let source = out.join("msgstore.c");
    fs::write(&source, "#define MSGSTORE_IMPLEMENTATION\n#define MSGSTORE_FFI_IMPLEMENTATION\n\
                        #include \"msgstore.h\"\n#include \"msgstore_ffi.h\"\n").unwrap();
    let mut build = cc::Build::new();
    build.file(&source).include(&header).include(&flat).warnings(false);
    if stb.starts_with(&here) || !stb.ends_with("include") {
        build.include(&stb);
    }
    build.flag_if_supported("-std=c99").flag_if_supported("-pthread");
    if env::var("PROFILE").as_deref() == Ok("release") {
        build.define("NDEBUG", None);
    }
    build.compile("msgstore");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-lib=pthread");
    }
}
