# An overlay port: vcpkg install msgstore --overlay-ports=packaging. It takes the headers of
# the checkout that it stands in.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DMSGSTORE_INSTALL=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/msgstore)
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
