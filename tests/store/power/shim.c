/* A power cut for a real process, by LD_PRELOAD.
 *
 * After `power_begin` every change below a folder is made as usual and then noted in a journal outside of it, together
 * with the syncs that have returned. At a given number of notes the process kills itself. The parent rebuilds the
 * folder from the journal, with what was not synced torn, reordered and lost (tests/store/power/replay.py).
 *
 * A note is made after its call and before the call returns, so that what a process tells anybody rests only on what
 * is noted. One lock is held from the call to its note: the order of notes is the order of changes. Changes through
 * mmap are not seen; LMDB makes none to its data unless it is opened with MDB_WRITEMAP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, RESIZE, WRITE, SYNC, SYNC_RANGE, SYNC_FOLDER, RENAME, REMOVE, FOLDER, TOLD };

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static int told_to = -1;
static long notes_left;

/* In the child, after the fork: the folder, the journal, the descriptor on which it tells what is durable, and how many
 * notes it lives for. */
int power_begin(const char *folder, const char *path, int told, long notes)
{
    journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    root_length = strlen(folder);
    if (journal < 0 || root_length >= sizeof root)
        return -1;
    memcpy(root, folder, root_length + 1);
    told_to = told;
    notes_left = notes;
    return 0;
}

static void note(enum kind kind, uint64_t inode, uint64_t offset, const struct iovec *data, int count)
{
    struct __attribute__((packed)) {
        uint8_t kind;
        uint64_t inode, offset;
        uint32_t length;
    } head = {kind, inode, offset, 0};
    struct iovec all[1 + IOV_MAX] = {{&head, sizeof head}};
    for (int i = 0; i < count; i++) {
        all[1 + i] = data[i];
        head.length += data[i].iov_len;
    }
    if (notes_left-- <= 0 || syscall(SYS_writev, journal, all, 1 + count) < 0)
        syscall(SYS_kill, getpid(), SIGKILL);
}

static void note_text(enum kind kind, uint64_t inode, uint64_t offset, const char *text, const char *more)
{
    struct iovec data[] = {{(void *)text, strlen(text) + 1}, {(void *)more, strlen(more)}};
    note(kind, inode, offset, data, 2);
}

static int is_below(const char *path)
{
    return journal >= 0 && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}

static int path_of(int descriptor, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0;
}

static uint64_t inode_of(int descriptor)
{
    struct stat found;
    return fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

/* Whether changes of this descriptor are noted. LMDB's lock file is not: its contents do not outlive a process. */
static int is_watched(int descriptor)
{
    char path[PATH_MAX];
    if (journal < 0 || descriptor < 0)
        return 0;
    int saved = errno;
    int watched = path_of(descriptor, path) && is_below(path) && !strstr(path, "/lock.mdb");
    errno = saved;
    return watched;
}

static int begin(int descriptor)
{
    int watched = is_watched(descriptor);
    if (watched)
        pthread_mutex_lock(&order);
    return watched;
}

static void end(int watched)
{
    if (watched)
        pthread_mutex_unlock(&order);
}

/* Files */

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    int noted = journal >= 0 && (flags & (O_CREAT | O_TRUNC)) && is_below(path) && !strstr(path, "/lock.mdb");
    if (!noted)
        return syscall(SYS_openat, folder, path, flags, mode);
    pthread_mutex_lock(&order);
    int descriptor = syscall(SYS_openat, folder, path, flags, mode);
    if (descriptor >= 0)
        note_text(CREATE, inode_of(descriptor), !!(flags & O_TRUNC), path, "");
    pthread_mutex_unlock(&order);
    return descriptor;
}

#define OPENS(name)                                        \
    int name(const char *path, int flags, ...)             \
    {                                                      \
        va_list more;                                      \
        va_start(more, flags);                             \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                      \
        return opened(AT_FDCWD, path, flags, mode);        \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                     \
    int name(int folder, const char *path, int flags, ...) \
    {                                                      \
        va_list more;                                      \
        va_start(more, flags);                             \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                      \
        return opened(folder, path, flags, mode);          \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

static void wrote(int descriptor, off_t offset, const struct iovec *data, int count, ssize_t size)
{
    struct iovec done[IOV_MAX];
    size_t left = size;
    int parts = 0;
    for (; parts < count && left; parts++) {
        done[parts] = data[parts];
        if (done[parts].iov_len > left)
            done[parts].iov_len = left;
        left -= done[parts].iov_len;
    }
    uint64_t inode = inode_of(descriptor);
    note(WRITE, inode, offset, done, parts);
    if (fcntl(descriptor, F_GETFL) & O_DSYNC) {
        uint64_t length = size;
        struct iovec range = {&length, sizeof length};
        note(SYNC_RANGE, inode, offset, &range, 1);
    }
}

static ssize_t written_at(int descriptor, const struct iovec *data, int count, off_t offset)
{
    int watched = begin(descriptor);
    ssize_t size = syscall(SYS_pwritev, descriptor, data, count, (long)offset, 0L);
    if (watched && size > 0)
        wrote(descriptor, offset, data, count, size);
    end(watched);
    return size;
}

static ssize_t written(int descriptor, const struct iovec *data, int count)
{
    if (descriptor == told_to && journal >= 0) {
        pthread_mutex_lock(&order);
        note(TOLD, 0, 0, data, count);
        pthread_mutex_unlock(&order);
    }
    int watched = begin(descriptor);
    off_t offset = watched ? lseek(descriptor, 0, SEEK_CUR) : 0;
    ssize_t size = syscall(SYS_writev, descriptor, data, count);
    if (watched && size > 0)
        wrote(descriptor, offset, data, count, size);
    end(watched);
    return size;
}

ssize_t write(int descriptor, const void *data, size_t length)
{
    struct iovec all = {(void *)data, length};
    return written(descriptor, &all, 1);
}

ssize_t writev(int descriptor, const struct iovec *data, int count)
{
    return written(descriptor, data, count);
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset)
{
    struct iovec all = {(void *)data, length};
    return written_at(descriptor, &all, 1, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t length, off_t offset)
{
    return pwrite(descriptor, data, length, offset);
}

ssize_t pwritev(int descriptor, const struct iovec *data, int count, off_t offset)
{
    return written_at(descriptor, data, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *data, int count, off_t offset)
{
    return written_at(descriptor, data, count, offset);
}

static int resized(int descriptor, int watched, int failed)
{
    struct stat found;
    if (watched && !failed && fstat(descriptor, &found) == 0)
        note(RESIZE, found.st_ino, found.st_size, NULL, 0);
    end(watched);
    return failed;
}

int ftruncate(int descriptor, off_t size)
{
    int watched = begin(descriptor);
    return resized(descriptor, watched, syscall(SYS_ftruncate, descriptor, size));
}

int ftruncate64(int descriptor, off_t size)
{
    return ftruncate(descriptor, size);
}

int fallocate(int descriptor, int mode, off_t offset, off_t size)
{
    int watched = begin(descriptor);
    return resized(descriptor, watched, syscall(SYS_fallocate, descriptor, mode, offset, size));
}

int fallocate64(int descriptor, int mode, off_t offset, off_t size)
{
    return fallocate(descriptor, mode, offset, size);
}

int posix_fallocate(int descriptor, off_t offset, off_t size)
{
    int saved = errno;
    int error = fallocate(descriptor, 0, offset, size) ? errno : 0;
    errno = saved;
    return error;
}

int posix_fallocate64(int descriptor, off_t offset, off_t size)
{
    return posix_fallocate(descriptor, offset, size);
}

/* Syncs: noted when they have returned. */

static int synced(int descriptor, long number)
{
    struct stat found;
    char path[PATH_MAX];
    int watched = begin(descriptor);
    int failed = syscall(number, descriptor);
    if (watched && !failed && fstat(descriptor, &found) == 0) {
        if (!S_ISDIR(found.st_mode))
            note(SYNC, found.st_ino, 0, NULL, 0);
        else if (path_of(descriptor, path))
            note_text(SYNC_FOLDER, 0, 0, path, "");
    }
    end(watched);
    return failed;
}

int fsync(int descriptor)
{
    return synced(descriptor, SYS_fsync);
}

int fdatasync(int descriptor)
{
    return synced(descriptor, SYS_fdatasync);
}

/* Names */

static int changed(enum kind kind, const char *path, const char *to, int failed)
{
    if (!failed)
        note_text(kind, 0, 0, path, to);
    pthread_mutex_unlock(&order);
    return failed;
}

int renameat(int folder, const char *path, int to_folder, const char *to)
{
    if (!is_below(path))
        return syscall(SYS_renameat, folder, path, to_folder, to);
    pthread_mutex_lock(&order);
    return changed(RENAME, path, to, syscall(SYS_renameat, folder, path, to_folder, to));
}

int rename(const char *path, const char *to)
{
    return renameat(AT_FDCWD, path, AT_FDCWD, to);
}

int unlinkat(int folder, const char *path, int flags)
{
    if (!is_below(path) || strstr(path, "/lock.mdb"))
        return syscall(SYS_unlinkat, folder, path, flags);
    pthread_mutex_lock(&order);
    return changed(REMOVE, path, "", syscall(SYS_unlinkat, folder, path, flags));
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    if (!is_below(path))
        return syscall(SYS_mkdirat, folder, path, mode);
    pthread_mutex_lock(&order);
    return changed(FOLDER, path, "", syscall(SYS_mkdirat, folder, path, mode));
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
