/* Between a process and the system: calls that change files below one folder can be counted, killed, torn, refused
   and written down. Loaded with LD_PRELOAD, idle until shim_arm is called.

   Every such call is one line in the log, if there is one, followed by its data:
       write PATH OFFSET LENGTH\n<data>   truncate PATH LENGTH   sync PATH   rename FROM TO   remove PATH
       create PATH   folder PATH   mark LENGTH\n<data>
   Only calls that succeed are written down. Paths are absolute and have no line ends in them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT, KILL, TEAR, REFUSE };
static char root[512];
static int armed, action, refusal, log_file = -1;
static long left, seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t plain_write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return real(fd, data, size);
}

void shim_arm(const char *folder, int what, long at, int error, const char *log) {
    REAL(int, "open", const char *, int, ...);
    snprintf(root, sizeof root, "%s/", folder);
    action = what, left = at, refusal = error, seen = 0;
    if (log) log_file = real(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    armed = 1;
}

long shim_seen(void) { return seen; }

void shim_disarm(void) { armed = 0; }

static void put(const char *head, const void *data, size_t size) {
    if (log_file < 0) return;
    plain_write(log_file, head, strlen(head));
    if (size) plain_write(log_file, data, size);
}

void shim_mark(const char *data, size_t size) {
    char head[64];
    if (!armed) return;
    pthread_mutex_lock(&lock);
    snprintf(head, sizeof head, "mark %zu\n", size);
    put(head, data, size);
    pthread_mutex_unlock(&lock);
}

static int inside(const char *path) {
    size_t length = strlen(root);
    return !strncmp(path, root, length - 1) && (path[length - 1] == '/' || !path[length - 1]);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, 1023);
    path[size > 0 ? size : 0] = 0;
    return size > 0 && inside(path);
}

static int path_at(int dir, const char *name, char *path) {
    if (name[0] == '/') snprintf(path, 1024, "%s", name);
    else {
        if (dir == AT_FDCWD) { if (!getcwd(path, 1024)) return 0; }
        else if (path_of(dir, path), !path[0]) return 0;
        size_t size = strlen(path);
        snprintf(path + size, 1024 - size, "/%s", name);
    }
    return inside(path);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Count a call; say whether it is the one. */
static int chosen(void) {
    seen++;
    if (action == COUNT || --left != 0) return 0;
    if (action == KILL) die();
    return 1;
}

#define BEGIN(concerned, plain) \
    char path[1024], other[1024], head[2200]; \
    (void)other; \
    if (!armed || !(concerned)) return plain; \
    pthread_mutex_lock(&lock); \
    int hit = chosen()
#define REFUSED(result) \
    if (hit && action == REFUSE) { pthread_mutex_unlock(&lock); errno = refusal; return result; }
#define END(result, ...) \
    if ((result) >= 0 && log_file >= 0) { __VA_ARGS__; } \
    int saved = errno; \
    pthread_mutex_unlock(&lock); \
    errno = saved; \
    return result

ssize_t write(int fd, const void *data, size_t size) {
    BEGIN(path_of(fd, path), plain_write(fd, data, size));
    REFUSED(-1);
    if (hit && action == TEAR) { plain_write(fd, data, size / 2); die(); }
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = plain_write(fd, data, size);
    END(done, snprintf(head, sizeof head, "write %s %ld %zd\n", path, (long)offset, done); put(head, data, done));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    BEGIN(path_of(fd, path), real(fd, data, size, offset));
    REFUSED(-1);
    if (hit && action == TEAR) { real(fd, data, size / 2, offset); die(); }
    ssize_t done = real(fd, data, size, offset);
    END(done, snprintf(head, sizeof head, "write %s %ld %zd\n", path, (long)offset, done); put(head, data, done));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    BEGIN(path_of(fd, path), real(fd, size));
    REFUSED(-1);
    if (hit) die();
    int done = real(fd, size);
    END(done, snprintf(head, sizeof head, "truncate %s %ld\n", path, (long)size); put(head, 0, 0));
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

#define SYNC(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        BEGIN(path_of(fd, path), real(fd)); \
        REFUSED(-1); \
        if (hit) die(); \
        int done = real(fd); \
        END(done, snprintf(head, sizeof head, "sync %s\n", path); put(head, 0, 0)); \
    }
SYNC(fsync)
SYNC(fdatasync)

int renameat(int from, const char *old, int to, const char *new) {
    REAL(int, "renameat", int, const char *, int, const char *);
    BEGIN(path_at(from, old, path) && path_at(to, new, other), real(from, old, to, new));
    REFUSED(-1);
    if (hit) die();
    int done = real(from, old, to, new);
    END(done, snprintf(head, sizeof head, "rename %s %s\n", path, other); put(head, 0, 0));
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int unlinkat(int dir, const char *name, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    BEGIN(path_at(dir, name, path), real(dir, name, flags));
    REFUSED(-1);
    if (hit) die();
    int done = real(dir, name, flags);
    END(done, snprintf(head, sizeof head, "remove %s\n", path); put(head, 0, 0));
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

int mkdirat(int dir, const char *name, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    BEGIN(path_at(dir, name, path), real(dir, name, mode));
    REFUSED(-1);
    if (hit) die();
    int done = real(dir, name, mode);
    END(done, snprintf(head, sizeof head, "folder %s\n", path); put(head, 0, 0));
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int openat64(int dir, const char *name, int flags, ...) {
    REAL(int, "openat64", int, const char *, int, ...);
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    BEGIN(flags & O_CREAT && path_at(dir, name, path) && access(path, F_OK), real(dir, name, flags, mode));
    REFUSED(-1);
    if (hit) die();
    int done = real(dir, name, flags, mode);
    END(done, snprintf(head, sizeof head, "create %s\n", path); put(head, 0, 0));
}

#define OPEN(name, dir, ...) \
    int name(__VA_ARGS__, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return openat64(dir, path, flags, mode); \
    }
OPEN(open, AT_FDCWD, const char *path)
OPEN(open64, AT_FDCWD, const char *path)
OPEN(openat, dir, int dir, const char *path)
