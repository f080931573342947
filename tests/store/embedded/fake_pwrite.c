/* A disk that does as it is told: each call waits for a number in the pipe `gate`. Negative: it fails with that error.
 * Otherwise at most so many bytes are written. Without a gate it is the system's. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

int gate = -1;

long fake_pwrite(int file, const void *data, unsigned long size, long offset)
{
    long most;
    if (gate < 0)
        return pwrite(file, data, size, offset);
    if (read(gate, &most, sizeof most) != sizeof most)
        most = -EIO;
    if (most < 0) {
        errno = -most;
        return -1;
    }
    return pwrite(file, data, size < (unsigned long)most ? size : (unsigned long)most, offset);
}
