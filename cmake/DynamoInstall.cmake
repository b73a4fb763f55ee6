# Installs headers, .td files, libraries and a package file, so that
# find_package(Dynamo) works from an install tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS DynamoDialect DynamoCAPI EXPORT DynamoTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/dynamo include/dynamo-c DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "*.td")
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/dynamo DESTINATION include
  FILES_MATCHING PATTERN "*.inc" PATTERN CMakeFiles EXCLUDE)
install(EXPORT DynamoTargets NAMESPACE Dynamo:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dynamo)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/DynamoConfig.cmake.in
  ${PROJECT_BINARY_DIR}/DynamoConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dynamo)
install(FILES ${PROJECT_BINARY_DIR}/DynamoConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dynamo)
