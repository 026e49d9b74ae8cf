-- msgstore.h for xmake: add_deps("msgstore") after includes("msgstore").
target("msgstore")
    set_kind("headeronly")
    add_headerfiles("msgstore.h", "bindings/msgstore_ffi.h", "bindings/cpp/msgstore.hpp")
    add_includedirs(".", "bindings", "bindings/cpp", {public = true})
    add_syslinks("pthread", {public = true})
    for _, dir in ipairs({"/usr/include/stb", "/usr/local/include/stb"}) do
        if os.isfile(path.join(dir, "stb_ds.h")) then
            add_sysincludedirs(dir, {public = true})
            break
        end
    end
target_end()
