/* The byte order of numbers, for processors that have the least byte first. */

#ifndef WINDOWS_ENDIAN_H
#define WINDOWS_ENDIAN_H

#define htole64(number) ((uint64_t)(number))
#define le64toh(number) ((uint64_t)(number))

#endif /* WINDOWS_ENDIAN_H */
